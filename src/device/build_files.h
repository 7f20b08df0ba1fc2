// Files that build an exported program: a Makefile, and CMakeLists.txt.
#pragma once

#include <string>
#include <vector>

#include "device/sources.h"

namespace mantissa::device {

// `source` and `example` are names of C files, without their endings.
void append_build_files(const std::string& prefix, const std::string& source,
                        const std::string& example, std::vector<SourceFile>& files);

}  // namespace mantissa::device
