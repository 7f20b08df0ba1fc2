// What the value of a setting can be, for completing it.
#pragma once

#include <string>
#include <vector>

namespace mantissa {

struct Choices {
  std::vector<std::string> values;  // empty: free, or too many to list
  bool is_path = false;             // of a file or a folder (besides the values)
};

// Of a setting, by its name; it means the same in every command.
Choices choices_of(const std::string& setting);

}  // namespace mantissa
