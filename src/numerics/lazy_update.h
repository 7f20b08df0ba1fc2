// The lazy update. A parameter has two parts: the weight mantissa W (exponent e_w), which computes,
// and the accumulator A (exponent e_w - shift), which waits. Together they are one fixed-point
// number V = (W << shift) - A. An update subtracts exactly the rounded number from V, so nothing is
// lost. Source: BlockFloat [0136]-[0148], corrected in METHODS section 1.
#pragma once

#include <cstdint>

#include "numerics/rounding.h"
#include "reference/numerics/lazy.h"

namespace mantissa {

using LazySplit = RefSplit;

// V = (W << shift) - A.
constexpr int64_t lazy_value(int64_t weight, int64_t accumulator, int shift) {
  return ref_lazy_value(weight, accumulator, shift);
}

// One update by `update`, which is u already rounded (half up) to the accumulator's exponent:
// t = A + u; k = (t + 2^(shift-1)) >> shift; W' = W - k; A' = t - (k << shift). V' = V - u exactly,
// |A'| <= 2^(shift-1). Without an accumulator (shift 0): W' = W - u, A' = 0.
constexpr LazySplit lazy_step(int64_t weight, int64_t accumulator, int64_t update, int shift) {
  const int64_t t = accumulator + update;
  const int64_t k = shift_right_rhu(t, shift);
  return {weight - k, t - k * (int64_t{1} << shift)};
}

// The weight that this update would leave, in W's unit and clipped to W's bits: for predictions of
// a pipeline (METHODS section 5).
constexpr int64_t predicted_weight(int64_t weight, int64_t accumulator, int64_t update, int shift,
                                   int bits) {
  return saturate(lazy_step(weight, accumulator, update, shift).weight, mantissa_limit(bits));
}

// The W and A that lazy_step leaves, from V' alone: ties go to the smaller W.
constexpr LazySplit lazy_split_step(int64_t value, int shift) {
  return ref_lazy_split_step(value, shift);
}

// The W and A after the unit changed: W = (V + 2^(shift-1)) >> shift; ties go to the larger W.
constexpr LazySplit lazy_split_rescaled(int64_t value, int shift) {
  return ref_lazy_split_rescaled(value, shift);
}

// V after `growth` doublings of its unit, V = (V + 1) >> 1 each, or -growth exact halvings; split.
constexpr LazySplit lazy_rescale_and_split(int64_t value, int growth, int shift) {
  return ref_lazy_rescale_and_split(value, growth, shift);
}

// How many doublings of the unit (negative: halvings) a tensor needs whose V' lie in [low, high]
// (reference/numerics/lazy.h).
constexpr int lazy_growth(int64_t low, int64_t high, int weight_bits, int shift,
                          int most_halvings) {
  return ref_lazy_growth(low, high, weight_bits, shift, most_halvings);
}

}  // namespace mantissa
