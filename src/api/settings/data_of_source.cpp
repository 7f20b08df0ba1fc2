// The data of a run serve the run that starts from it.
#include <filesystem>
#include <initializer_list>

#include "api/settings/quantise_settings.h"
#include "run/settings/config_file.h"
#include "run/settings/run_folder.h"

namespace mantissa {

Result<Settings> with_data_of_source(Settings settings) {
  const auto from = settings.find("from");
  if (from == settings.end()) return settings;
  std::error_code ignored;
  const std::filesystem::path path = from->second;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = (is_folder ? path : path.parent_path()) / kConfigFile;
  const bool is_of_a_run = is_folder || path.extension() == ".safetensors";
  if (!is_of_a_run || !std::filesystem::exists(file, ignored)) return settings;
  MANTISSA_ASSIGN(const ConfigFile source, read_config(file));
  const auto data = settings.find("data");
  const auto trained = source.settings.find("data");
  const bool same_data = data == settings.end() ||
                         (trained != source.settings.end() && data->second == trained->second);
  const auto take = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const auto found = source.settings.find(name);
      if (found != source.settings.end()) settings.insert(*found);
    }
  };
  take({"sequence", "tokens", "vocabulary"});
  if (same_data) {
    take({"data", "input-size", "target", "ignore", "task", "text-column", "header", "missing",
          "decimal"});
  }
  return settings;
}

}  // namespace mantissa
