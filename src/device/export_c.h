// Networks as C99 for machines without an operating system: sources that need no library, no
// memory but one arena and the stack, and no floating point (docs/device.md).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/sources.h"
#include "infer/frozen_network.h"

namespace mantissa::device {

struct CProgram {
  std::vector<SourceFile> files;
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;     // training: what a step changes and keeps
  int64_t constant_bytes = 0;  // weights and tables; training: the state to begin with, too
};

// The frozen network for one example at a time: `prefix`.h, `prefix`.c, the sources that they call,
// an example, and files to build them. Each function and type of the network begins with `prefix`,
// a C identifier. Logits are those of `predict --raw`, bit for bit. Errors name the node that C
// lacks.
Result<CProgram> c_of_frozen(FrozenNetwork& network, const std::string& prefix);

}  // namespace mantissa::device
