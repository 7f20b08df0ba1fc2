// Sums of products of values and gradients, which must be exact in int64.
#pragma once

#include <string>

#include "graph/op.h"

namespace mantissa::ops {

// Refuses sums of this many products of the first input's mantissas and gradients if they may leave
// int64: sums for gw=32 and linear values of 16 bits.
inline Status check_gradient_sums(const OpShapes& s, int64_t products) {
  if (!is_training(s.exponent_mode)) return {};
  const int value_bits = s.input_bits(0);
  const int gradient_bits = s.wide_gradient.bits;
  const int most = 64 - value_bits - gradient_bits;
  if (products <= int64_t{1} << most) return {};
  return invalid_input("sums of " + std::to_string(products) + " products of values of " +
                       std::to_string(value_bits) + " bits and gradients of " +
                       std::to_string(gradient_bits) + " are not exact in int64; at most 2^" +
                       std::to_string(most) + " are: choose a smaller micro-batch, or gw=16");
}

}  // namespace mantissa::ops
