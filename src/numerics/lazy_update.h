// The lazy update. A parameter has two parts: the weight mantissa W (exponent e_w), which computes,
// and the accumulator A (exponent e_w - shift), which waits. Together they are one fixed-point
// number V = (W << shift) - A. An update subtracts exactly the rounded number from V, so nothing is
// lost. Source: BlockFloat [0136]-[0148], corrected in METHODS section 1.
#pragma once

#include <cstdint>

#include "numerics/rounding.h"

namespace mantissa {

struct LazySplit {
  int64_t weight;
  int64_t accumulator;
  constexpr bool operator==(const LazySplit&) const = default;
};

// V = (W << shift) - A.
constexpr int64_t lazy_value(int64_t weight, int64_t accumulator, int shift) {
  return weight * (int64_t{1} << shift) - accumulator;
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
  const int64_t weight = -shift_right_rhu(-value, shift);
  return {weight, weight * (int64_t{1} << shift) - value};
}

// The W and A after the unit changed: W = (V + 2^(shift-1)) >> shift; ties go to the larger W.
constexpr LazySplit lazy_split_rescaled(int64_t value, int shift) {
  const int64_t weight = shift_right_rhu(value, shift);
  return {weight, weight * (int64_t{1} << shift) - value};
}

// V after `growth` doublings of its unit, V = (V + 1) >> 1 each, or -growth exact halvings; split.
constexpr LazySplit lazy_rescale_and_split(int64_t value, int growth, int shift) {
  if (growth == 0) return lazy_split_step(value, shift);
  for (int doubling = 0; doubling < growth; ++doubling) value = (value + 1) >> 1;
  if (growth < 0) value = value * (int64_t{1} << -growth);
  return lazy_split_rescaled(value, shift);
}

// How many doublings of the unit (negative: halvings) a tensor needs whose V' lie in [low, high].
// Grows while some |W| exceeds the mantissa's limit; else shrinks while max |V| is below
// (2^(bits-2) - 2) << shift (62 << 15 for 8 bits: the margin stops ping-pong; with fewer than 8
// bits it is half a unit), by at most `most_halvings`. An all-zero tensor keeps its exponent.
// Rescaling is monotone, so the extremes decide.
constexpr int lazy_growth(int64_t low, int64_t high, int weight_bits, int shift,
                          int most_halvings) {
  const int64_t limit = mantissa_limit(weight_bits);
  const auto fits = [&](int growth) {
    return magnitude(lazy_rescale_and_split(low, growth, shift).weight) <=
               static_cast<uint64_t>(limit) &&
           magnitude(lazy_rescale_and_split(high, growth, shift).weight) <=
               static_cast<uint64_t>(limit);
  };
  int growth = 0;
  while (!fits(growth)) ++growth;
  if (growth > 0) return growth;
  const uint64_t largest = magnitude(low) > magnitude(high) ? magnitude(low) : magnitude(high);
  const uint64_t half_units = (uint64_t{1} << (weight_bits - 1)) - (weight_bits < 8 ? 1 : 4);
  const uint64_t shrink_below = (half_units << shift) >> 1;
  int halvings = 0;
  while (largest != 0 && halvings < most_halvings && (largest << halvings) < shrink_below) {
    ++halvings;
  }
  return -halvings;
}

}  // namespace mantissa
