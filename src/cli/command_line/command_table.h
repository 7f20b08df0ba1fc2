// The commands, a row each.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mantissa::cli {

struct CommandLine;

// Arguments of a command that belong to no option.
struct PathsInfo {
  const char* label = "";
  const char* help = "";
  size_t least = 0, most = 0;
};

// A command: its text in --help, its arguments, and its work. Its settings are those of
// settings_of(name).
struct Command {
  const char* name;
  const char* description;
  int (*run)(const CommandLine& line);  // returns the exit code
  const char* examples;
  const char* notes = "";
  PathsInfo paths = {};
  const char* standing_alone = "";  // a setting that may stand without its name
  const char* letter_of = "";       // a setting that -n is short for
};

// In the order of --help. Defined where the commands are, in cli/commands.
std::span<const Command> command_table();

// The row of a command that there is.
const Command& command_of(const std::string& name);

}  // namespace mantissa::cli
