// The files of an exported training program: its header and source, an example, and a Makefile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/sources.h"

namespace mantissa::device {

// What stands for @NAME@ in the texts.
using Words = std::map<std::string, std::string>;

// `headers`: whose functions the program calls; `tables`: its constants.
std::vector<SourceFile> training_files(const Words& words, const std::vector<std::string>& headers,
                                       const std::string& tables);

}  // namespace mantissa::device
