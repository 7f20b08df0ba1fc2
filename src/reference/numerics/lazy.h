// The lazy update. A parameter has two parts: the weight mantissa W (exponent e_w), which computes,
// and the accumulator A (exponent e_w - shift), which waits. Together they are one fixed-point
// number V = (W << shift) - A. An update subtracts exactly the rounded number from V, so nothing is
// lost. Source: BlockFloat [0136]-[0148], corrected in METHODS section 1.
#pragma once

#include "reference/numerics/numerics.h"

typedef struct RefSplit {
  int64_t weight;
  int64_t accumulator;
#ifdef __cplusplus
  constexpr bool operator==(const RefSplit&) const = default;
#endif
} RefSplit;

// V = (W << shift) - A.
REF_INLINE int64_t ref_lazy_value(int64_t weight, int64_t accumulator, int shift) {
  return weight * ((int64_t)1 << shift) - accumulator;
}

// The W and A that an update leaves, from V' alone: ties go to the smaller W.
REF_INLINE RefSplit ref_lazy_split_step(int64_t value, int shift) {
  const int64_t weight = -ref_shift_right_rhu(-value, shift);
  const RefSplit split = {weight, weight * ((int64_t)1 << shift) - value};
  return split;
}

// The W and A after the unit changed: W = (V + 2^(shift-1)) >> shift; ties go to the larger W.
REF_INLINE RefSplit ref_lazy_split_rescaled(int64_t value, int shift) {
  const int64_t weight = ref_shift_right_rhu(value, shift);
  const RefSplit split = {weight, weight * ((int64_t)1 << shift) - value};
  return split;
}

// V after `growth` doublings of its unit, V = (V + 1) >> 1 each, or -growth exact halvings; split.
REF_INLINE RefSplit ref_lazy_rescale_and_split(int64_t value, int growth, int shift) {
  if (growth == 0) return ref_lazy_split_step(value, shift);
  for (int doubling = 0; doubling < growth; ++doubling) value = (value + 1) >> 1;
  if (growth < 0) value = value * ((int64_t)1 << -growth);
  return ref_lazy_split_rescaled(value, shift);
}

// Whether the W of V, `growth` doublings later, fits its bits.
REF_INLINE bool ref_lazy_fits(int64_t value, int growth, int weight_bits, int shift) {
  return ref_magnitude(ref_lazy_rescale_and_split(value, growth, shift).weight) <=
         (uint64_t)ref_mantissa_limit(weight_bits);
}

// How many doublings of the unit (negative: halvings) a tensor needs whose V' lie in [low, high].
// Grows while some |W| exceeds the mantissa's limit; else shrinks while max |V| is below
// (2^(bits-2) - 2) << shift (62 << 15 for 8 bits: the margin stops ping-pong; with fewer than 8
// bits it is half a unit), by at most `most_halvings`. An all-zero tensor keeps its exponent.
// Rescaling is monotone, so the extremes decide.
REF_INLINE int ref_lazy_growth(int64_t low, int64_t high, int weight_bits, int shift,
                               int most_halvings) {
  int growth = 0;
  while (!ref_lazy_fits(low, growth, weight_bits, shift) ||
         !ref_lazy_fits(high, growth, weight_bits, shift)) {
    ++growth;
  }
  if (growth > 0) return growth;
  const uint64_t below = ref_magnitude(low), above = ref_magnitude(high);
  const uint64_t largest = below > above ? below : above;
  const uint64_t half_units = ((uint64_t)1 << (weight_bits - 1)) - (weight_bits < 8 ? 1 : 4);
  const uint64_t shrink_below = (half_units << shift) >> 1;
  int halvings = 0;
  while (largest != 0 && halvings < most_halvings && (largest << halvings) < shrink_below) {
    ++halvings;
  }
  return -halvings;
}
