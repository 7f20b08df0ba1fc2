// The commands: each calls the library, prints the result and returns the exit code.
#pragma once

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

int run_command(const CommandLine& line);

}  // namespace mantissa::cli
