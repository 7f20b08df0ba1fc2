// Settings that the commands for trained networks have in common.
#pragma once

#include <optional>
#include <string>

#include "api/settings/settings.h"
#include "base/result.h"
#include "base/system/cpu.h"
#include "data/tables/table_schema.h"

namespace mantissa {

struct InferenceConfig {
  std::string checkpoint;
  std::string data;
  std::optional<int64_t> ignored_label = {};  // nothing: the label that the training ignored
  int threads = 1;
  Isa isa = Isa::kScalar;
};

template <typename Config>
inline constexpr SettingOf<Config> kIgnoreLabel = {
    "ignore-label", "label in NPZ and NPY files that counts nothing (left out: as in the training)",
    "", parse_whole<0, kMostIgnoredLabel, &Config::ignored_label>};

// The file of a network, which its run's folder may name.
Result<std::string> network_file(const std::string& checkpoint);

// The same in place. An error if there is no checkpoint.
Status find_checkpoint(std::string& checkpoint);

}  // namespace mantissa
