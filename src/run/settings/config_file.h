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

  // Both: all that a run was told, and what it made of it.
  std::map<std::string, std::string> all() const;
};

// Reads a TOML file. Whether names and values are those of a run is not checked. The path of a
// network's file is taken from the folder of this file on. Errors name the file and the line.
Result<ConfigFile> read_config(const std::filesystem::path& path);

// The same of a file that has no tables.
Result<std::map<std::string, std::string>> read_entries(const std::filesystem::path& path);

// A configuration file that repeats the run anywhere: every setting but those of the machine
// (threads, instruction set, memory budget, folder), and in [derived] what followed from them. A
// value that is not UTF-8, which no such file can hold, is an error that names its setting.
Result<std::string> to_toml(const RunConfig& config);

}  // namespace mantissa
