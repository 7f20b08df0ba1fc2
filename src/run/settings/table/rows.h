// The settings of training: a table for each theme. One after the other they are
// training_settings().
#pragma once

#include <span>
#include <string>

#include "run/settings/run_config.h"
#include "run/settings/setting.h"

namespace mantissa {

std::span<const Setting> network_rows();
std::span<const Setting> data_rows();
std::span<const Setting> step_rows();
std::span<const Setting> pipeline_rows();
std::span<const Setting> machine_rows();

// Short names for the tables.
using Config = RunConfig;
using S = const std::string&;

namespace traits {
inline constexpr uint32_t kRun = kInPlan | kInQuantize | kInFile;         // of runs with a data set
inline constexpr uint32_t kSteps = kRun | kInTrainer;                     // of all training
inline constexpr uint32_t kMachine = kInPlan | kInQuantize | kInTrainer;  // defines no run
}  // namespace traits

// A setting of built-in networks as text, empty if a file describes the network.
inline std::string of_built_in(const Config& config, std::string text) {
  return config.network ? "" : std::move(text);
}

}  // namespace mantissa
