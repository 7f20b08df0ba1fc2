// 1 / n as a whole number and an exponent: means are exact sums times it.
#pragma once

#include <cstdint>

#include "numerics/real.h"
#include "numerics/rounding.h"

namespace mantissa::ops {

constexpr int kMeanBits = 31;

struct Reciprocal {
  int64_t multiplier;
  int exponent;
};

// With a multiplier of this many bits, rounded to nearest.
inline Reciprocal reciprocal(int64_t count, int bits = kMeanBits) {
  const Real part = Real(1) / Real(count);
  const int shift = fixed_point_shift(part, bits);
  return {to_fixed_point(part, shift, mantissa_limit(bits + 1)), -shift};
}

}  // namespace mantissa::ops
