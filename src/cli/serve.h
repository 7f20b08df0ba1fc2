// serve: a trained network over HTTP.
#pragma once

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

int run_serve(const CommandLine& line);

}  // namespace mantissa::cli
