// Commands to try after a training run.
#pragma once

#include <string>

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

// Commands for the run in the folder `out`, on the data that it was trained on, one a line: each
// of them runs where this one ran.
std::string next_steps(const CommandLine& line, const std::string& out,
                       const std::string& summary_json);

}  // namespace mantissa::cli
