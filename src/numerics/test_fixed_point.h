// For tests: the functions of Real, in doubles.
#pragma once

#include <cmath>
#include <cstdint>

#include "numerics/rounding.h"

namespace mantissa {

// k with 2^(bits-1) <= peak * 2^k < 2^bits for peak > 0; 0 for peak = 0.
inline int fixed_point_shift(double peak, int bits) {
  if (peak == 0) return 0;
  int exponent = 0;
  std::frexp(peak, &exponent);
  return bits - exponent;
}

// real * 2^shift rounded to nearest even, clipped to +-limit. NaN gives 0.
inline int64_t to_fixed_point(double real, int shift, int64_t limit) {
  const double scaled = std::nearbyint(std::ldexp(real, shift));
  if (!(std::abs(scaled) < static_cast<double>(limit))) {
    return std::isnan(scaled) ? 0 : (scaled < 0 ? -limit : limit);
  }
  return static_cast<int64_t>(scaled);
}

}  // namespace mantissa
