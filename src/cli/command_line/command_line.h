// The command line, parsed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mantissa/mantissa.h"

namespace mantissa::cli {

struct CommandLine {
  std::string program;                 // the name it was called by
  std::vector<std::string> arguments;  // all that follow it
  std::string command;                 // train, eval, predict ...
  Settings settings;                   // only what was given
  std::vector<std::string> paths;      // arguments that belong to no option, as many as it wants
  bool json = false;
  bool quiet = false;

  // A setting that was given, or its default ("" without one).
  std::string setting(const std::string& name) const;
};

// Parses the arguments; options are those of settings_of(command). Returns the exit code if there
// is nothing more to do: after --help and --version (on standard output), and after a usage error
// (one line on standard error).
std::optional<int> parse_command_line(int argc, const char* const* argv, CommandLine& line);

// The settings of a command that the command line offers: settings_of(command), and for info "isa",
// "graph" and "tensors".
std::vector<SettingInfo> offered_settings(const std::string& command);

// "mantissa train --model mlp ..." with the given settings; those that the command does not have,
// or whose value is empty, are left out.
std::string command_text(const std::string& program, const std::string& command,
                         const std::vector<std::pair<std::string, std::string>>& settings);

// The command line once more, with --resume (and without --overwrite).
std::string resume_text(const CommandLine& line);

}  // namespace mantissa::cli
