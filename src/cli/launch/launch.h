// `mantissa launch`: starts the processes of a run by mpirun and watches over them.
#pragma once

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

// Returns the exit code.
int run_launch(const CommandLine& line);

}  // namespace mantissa::cli
