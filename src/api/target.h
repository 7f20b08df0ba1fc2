// Files that a command is told to write.
#pragma once

#include <string>

#include "base/result.h"

namespace mantissa {

// Whether the `file` that an option names can be written, found out before any work: its folder is
// there, and it is a regular file or nothing yet. Writing renames over the target: a link or a
// device would be gone.
Status check_target(const std::string& option, const std::string& file);

}  // namespace mantissa
