// Settings that the commands for trained networks have in common.
#pragma once

#include <string>

#include "api/settings/settings.h"
#include "base/result.h"
#include "base/system/cpu.h"

namespace mantissa {

struct InferenceConfig {
  std::string checkpoint;
  std::string data;
  int threads = 1;
  Isa isa = Isa::kScalar;
};

// The file of a network, which its run's folder may name.
Result<std::string> network_file(const std::string& checkpoint);

// The same in place. An error if there is no checkpoint.
Status find_checkpoint(std::string& checkpoint);

}  // namespace mantissa
