// The files of an exported training program: its header and source, an example, and files to build
// them.
#pragma once

#include <string>
#include <vector>

#include "device/sources.h"
#include "device/text/words.h"

namespace mantissa::device {

// `headers`: whose functions the program calls; `tables`: its constants.
std::vector<SourceFile> training_files(const Words& words, const std::vector<std::string>& headers,
                                       const std::string& tables);

}  // namespace mantissa::device
