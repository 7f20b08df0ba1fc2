// The possible values of a setting, for completion.
#pragma once

#include <string>
#include <vector>

#include "mantissa/export.h"

namespace mantissa {

struct Choices {
  std::vector<std::string> values;  // empty: free, or too many to list
  bool is_path = false;             // a path to a file or a folder is possible, too
};

// The choices of a setting, by its name; a setting means the same in every command.
MANTISSA_EXPORT Choices choices_of(const std::string& setting);

}  // namespace mantissa
