#include <vector>

#include "run/settings/table/rows.h"

namespace mantissa {

std::span<const Setting> training_settings() {
  static const std::vector<Setting> kAll = [] {
    std::vector<Setting> all;
    for (const auto rows :
         {network_rows(), data_rows(), step_rows(), pipeline_rows(), machine_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kAll;
}

const Setting* training_setting(std::string_view name) {
  return find_setting(training_settings(), name);
}

bool has_trait(std::string_view name, uint32_t trait) {
  const Setting* const setting = training_setting(name);
  return setting != nullptr && setting->has(trait);
}

}  // namespace mantissa
