// Configuration files.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// The settings in a configuration file, by name, each as the text that a command line would have.
struct ConfigFile {
  std::map<std::string, std::string> settings;
  std::map<std::string, std::string> derived;  // its table [derived]

  // Both: the settings that a run got, and the values that followed.
  std::map<std::string, std::string> all() const;
};

// Reads a TOML file. It does not check whether names and values suit a run. The path of a network's
// file is relative to the folder of this file. Errors name the file and the line.
Result<ConfigFile> read_config(const std::filesystem::path& path);

// The same of a file that has no tables.
Result<std::map<std::string, std::string>> read_entries(const std::filesystem::path& path);

// A configuration file that repeats the run anywhere: every setting except the machine's (threads,
// instruction set, memory budget, folder), and in [derived] the values that followed. A value that
// is not UTF-8, which no such file can hold, is an error that names its setting.
Result<std::string> to_toml(const RunConfig& config);

}  // namespace mantissa
