// The slopes of PReLU as whole numbers.
#pragma once

#include <algorithm>

#include "numerics/rounding.h"

namespace mantissa::ops {

// The exponent of the unit of products with slopes at an exponent.
inline int prelu_unit(int slope_exponent) { return std::clamp(slope_exponent, -30, 0); }

// The factor of a mantissa in this unit: one, or the slope. At most 2^30.
inline int64_t prelu_factor(int64_t mantissa, int64_t slope, int slope_exponent) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int unit = prelu_unit(slope_exponent);
  if (mantissa > 0) return int64_t{1} << -unit;
  return saturate(rescale_rne(slope, unit - slope_exponent), kMost);
}

}  // namespace mantissa::ops
