// Files that a command is told to write.
#pragma once

#include <string>

#include "base/result.h"

namespace mantissa {

// Whether the `file` that an option names can be written, checked before any work: its folder
// exists, and the target is a regular file or does not exist yet. Writing renames over the target,
// which would replace a link or a device.
Status check_target(const std::string& option, const std::string& file);

}  // namespace mantissa
