// Arithmetic of Adam beyond sums: powers, the integer root, and the rounding of its slow averages.
#pragma once

#include <cstdint>

#include "numerics/rounding.h"

namespace mantissa {

// base^exponent for exponent >= 0 by squaring: products in a fixed order, no libm.
template <typename Number>
constexpr Number power(Number base, int64_t exponent) {
  Number result(1);
  for (; exponent > 0; exponent >>= 1, base = base * base) {
    if ((exponent & 1) != 0) result = result * base;
  }
  return result;
}

// floor(sqrt(n)) for 0 <= n <= 2^62.
constexpr int64_t integer_square_root(int64_t n) {
  return static_cast<int64_t>(integer_root(static_cast<uint64_t>(n)));
}

// The addend before the low `shift` bits (0 to 61) are cut off in step `step` >= 0: it runs
// through [0, 2^shift) evenly, as the bits of the step in reverse order do (van der Corput).
constexpr int64_t rounding_offset(int64_t step, int shift) {
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit)
    reversed = reversed << 1 | (static_cast<uint64_t>(step) >> bit & 1);
  const auto fraction = static_cast<uint64_t>(reversed);
  return static_cast<int64_t>(shift <= 32 ? fraction >> (32 - shift) : fraction << (shift - 32));
}

}  // namespace mantissa
