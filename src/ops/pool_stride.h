// The stride of pools: the same in all arithmetics.
#pragma once

#include "graph/attributes.h"

namespace mantissa::ops {

// A stride of 0 is as long as the window.
inline int64_t pool_stride(const Attributes& attributes) {
  return attributes.is_set("stride") ? attributes.whole("stride") : attributes.whole("window");
}

}  // namespace mantissa::ops
