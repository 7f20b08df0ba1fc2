// A linear grid for numbers that were trained: numbers are replaced by scale * q + offset with whole
// q in [lo, hi] (METHODS section 3).
#pragma once

#include <cstdint>

namespace mantissa::quantize {

struct LinearGrid {
  double scale = 1;
  double offset = 0;
  int64_t lo = 0;
  int64_t hi = 0;
};

}  // namespace mantissa::quantize
