// The commands and their settings. Each command's row lies beside its function.
#pragma once

#include <string_view>
#include <vector>

#include "api/settings/settings.h"
#include "mantissa/mantissa.h"

namespace mantissa {

// A command as the list of all commands has it.
struct CommandInfo {
  std::string_view name;
  std::vector<SettingInfo> (*settings)();
};

template <const auto& kCommand>
CommandInfo info_of() {
  return {kCommand.name, [] { return infos_of(kCommand); }};
}

CommandInfo bench_command();
CommandInfo chat_command();
CommandInfo data_command();
CommandInfo embed_command();
CommandInfo eval_command();
CommandInfo export_command();
CommandInfo fill_mask_command();
CommandInfo generate_command();
CommandInfo import_command();
CommandInfo info_command();
CommandInfo launch_command();
CommandInfo plan_command();
CommandInfo predict_command();
CommandInfo profile_command();
CommandInfo quantize_command();
CommandInfo report_command();
CommandInfo run_command();
CommandInfo serve_command();
CommandInfo simulate_command();
CommandInfo statistics_command();
CommandInfo train_command();
CommandInfo translate_command();

}  // namespace mantissa
