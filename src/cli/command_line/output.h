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

// For texts of the library, whose last line may lack its end.
inline void print_whole_lines(const std::string& text) {
  print(text);
  if (!text.empty() && text.back() != '\n') print("\n");
}

// Says a problem, if it has a message, and gives the exit code.
inline int tell(const CommandLine& line, const Failure& problem) {
  if (!problem.message.empty()) say("mantissa " + line.command + ": " + printable(problem.message));
  return static_cast<int>(problem.exit);
}

}  // namespace mantissa::cli
