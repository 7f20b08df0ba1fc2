// Scripts that complete the command line in shells, from the tables of commands and settings.
#pragma once

#include <string>
#include <vector>

namespace mantissa::cli {

// The shells that there are scripts for.
std::vector<std::string> completed_shells();

// The script for one of these shells; "" for any other.
std::string completion_script(const std::string& shell);

}  // namespace mantissa::cli
