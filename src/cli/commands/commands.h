// Commands that do more than call a function and print its result. Each returns the exit code.
#pragma once

#include "cli/command_line/command_line.h"

namespace mantissa::cli {

// Runs that are shown as they get on, and can be stopped and resumed.
int run_train(const CommandLine& line);
int run_quantize(const CommandLine& line);

// A conversation with a language model, line by line.
int run_chat(const CommandLine& line);

int run_info(const CommandLine& line);
int run_import(const CommandLine& line);
int run_completion(const CommandLine& line);

}  // namespace mantissa::cli
