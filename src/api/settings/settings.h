// Settings of commands: their lists, and their reading.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "mantissa/mantissa.h"
#include "run/settings/run_config.h"
#include "run/settings/setting.h"

namespace mantissa {

// The training configuration: the file named by "config" (if any), overridden by the settings.
Result<RunConfig> training_config(const Settings& settings);

// An error if --resume names a file that is gone although the run has its own copy.
Status check_resumed_files(const Settings& settings);

// An error for a setting that the command does not have.
Status check_known(const std::string& command, const Settings& settings);

// Rows without a parser are settings of training. Without a name: all of them that the command has.
// With a name: that one, which may have a help of its own.
inline constexpr const char* kOfTraining = "";

template <typename Config>
SettingInfo info_of(const SettingOf<Config>& row) {
  return {row.name, row.help, row.default_text, row.has(traits::kSwitch), row.has(traits::kList)};
}

// Lists the settings of training that have the trait, 0 for all, and are not listed yet.
void list_training(uint32_t trait, std::vector<SettingInfo>& infos);

// A command: its name, its settings, and the trait of those settings of training that it has, too.
template <typename Config>
struct CommandOf {
  const char* name;
  std::span<const SettingOf<Config>> rows;
  uint32_t of_training = 0;
};

template <typename Config>
std::vector<SettingInfo> infos_of(const CommandOf<Config>& command) {
  std::vector<SettingInfo> infos;
  for (const SettingOf<Config>& row : command.rows) {
    if (*row.name == '\0') {
      list_training(command.of_training, infos);
    } else {
      infos.push_back(*row.help == '\0' ? info_of(*training_setting(row.name)) : info_of(row));
    }
  }
  return infos;
}

// Reads the settings of a command over the defaults of its rows. Settings of training are left to
// `training`. An error for one that the command does not have.
template <typename Config>
Result<Config> read_settings(const CommandOf<Config>& command, Settings settings,
                             Settings* training = nullptr) {
  MANTISSA_RETURN_IF_ERROR(check_known(command.name, settings));
  auto config = default_config<Config>(command.rows);
  MANTISSA_RETURN_IF_ERROR(take_settings<Config>(command.rows, settings, config));
  if (training != nullptr) *training = std::move(settings);
  return config;
}

// Rows that many commands have.
inline constexpr const char* kCheckpointHelp =
    "folder of a run, its model.safetensors, or an exported .onnx file";
inline constexpr const char* kThreadsHelp = "threads to compute with (0: one per core)";

template <typename Config>
inline constexpr SettingOf<Config> kCheckpoint = {"checkpoint", kCheckpointHelp, "",
                                                  parse_text<&Config::checkpoint>};
template <typename Config>
inline constexpr SettingOf<Config> kThreads = {"threads", kThreadsHelp, "0",
                                               parse_threads<&Config::threads>};
template <typename Config>
inline constexpr SettingOf<Config> kIsa = {
    "isa", "instruction set: auto, scalar, avx2, avxvnni, avx512vnni, amx", "auto",
    [](const std::string&, const std::string& text, Config& config) {
      return assign(parse_isa(text), config.isa);
    }};

}  // namespace mantissa
