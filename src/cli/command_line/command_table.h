// The commands: what --help says of them, and which arguments they take besides options.
#pragma once

#include <cstddef>
#include <span>

namespace mantissa::cli {

// Arguments of a command that belong to no option.
struct PathsInfo {
  const char* label = "";
  const char* help = "";
  size_t least = 0, most = 0;
};

struct CommandInfo {
  const char* name;
  const char* description;
  const char* examples;
  const char* notes = "";
  PathsInfo paths = {};
};

std::span<const CommandInfo> command_table();

}  // namespace mantissa::cli
