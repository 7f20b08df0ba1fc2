// The output of commands: results to standard output, messages to standard error.
#pragma once

#include <cstdio>
#include <string>

#include "cli/command_line/command_line.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/text.h"

namespace mantissa::cli {

inline void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

inline void say(const std::string& text) { write_message(2, text + "\n"); }

// Prints an outcome's error, if it has one, and gives the exit code.
template <typename Outcome>
int exit_code(const CommandLine& line, const Outcome& outcome) {
  if (!outcome.error.empty()) say("mantissa " + line.command + ": " + printable(outcome.error));
  if (outcome.exit == Exit::kDone && !outcome.error.empty()) return static_cast<int>(Exit::kFailed);
  return static_cast<int>(outcome.exit);
}

}  // namespace mantissa::cli
