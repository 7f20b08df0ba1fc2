// Settings of quantize: its own, and those of the training behind it.
#pragma once

#include <vector>

#include "base/result.h"
#include "mantissa/mantissa.h"
#include "train/quantise.h"

namespace mantissa {

std::vector<SettingInfo> quantize_infos();

struct QuantizeConfig {
  QuantiseSettings quantise;
  bool measures_sensitivity = false;
  Settings training;  // of train, with "from" and, but for sensitivity, "out"
};
Result<QuantizeConfig> quantize_config(const Settings& settings);

}  // namespace mantissa
