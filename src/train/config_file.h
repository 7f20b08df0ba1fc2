// Reading configuration files; to_toml (run_config.h) writes them.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"

namespace mantissa {

// The settings of a TOML file by name, each as the text that a command line would have. Whether
// names and values are those of a run is not checked. Errors name the file and the line.
Result<std::map<std::string, std::string>> read_config(const std::filesystem::path& path);

}  // namespace mantissa
