// How a block's exponent is chosen: pure functions from measurements to exponents.
//
// A tensor is mantissa * 2^exponent. `maximum` is always max |wide mantissa|; a policy answers with
// the shift from the wide mantissas to the narrow ones. Source: BlockFloat [0084]-[0086], METHODS
// sections 0.7 and 1.
#pragma once

#include "reference/numerics/numerics.h"

enum {
  // Exponents are kept in int16 and must stay within the 8 bits of BlockFloat [0077].
  REF_EXPONENT_MIN = -128,
  REF_EXPONENT_MAX = 127,
  // How many exponents below the decided one are counted separately (decisions.h).
  REF_FINER_EXPONENTS = 4,
  // No measurement yet (first step, or the last block was all zero).
  REF_UNMEASURED = INT16_MIN,
  // The accumulator of weight gradients (int64) keeps this many bits below last step's largest sum.
  // Sums from 2^60 on fail the step, so 20 bits are headroom. Its exponent is fixed at the start of
  // a step (METHODS section 0.7).
  REF_GRADIENT_ACCUMULATOR_BITS = 40,
  REF_GRADIENT_ACCUMULATOR_START = -40
};

REF_INLINE bool ref_exponent_in_range(int exponent) {
  return exponent >= REF_EXPONENT_MIN && exponent <= REF_EXPONENT_MAX;
}

// Exponent of an all-zero block of b-bit mantissas: as for a maximum of 2^-8.
REF_INLINE int ref_zero_exponent(int bits) { return -8 - (bits - 1); }

// The right shift that brings wide mantissas with this maximum to b bits:
// max(0, bit_length(maximum - 1) - (b - 1)). A maximum that rounds to 2^(b-1) saturates.
REF_INLINE int ref_exact_shift(uint64_t maximum, int bits) {
  if (maximum == 0) return 0;
  const int shift = ref_bit_length(maximum - 1) - (bits - 1);
  return shift > 0 ? shift : 0;
}

// The exponent of the block after requantising to b bits exactly.
REF_INLINE int ref_exact_exponent(uint64_t maximum, int wide_exponent, int bits) {
  return maximum == 0 ? ref_zero_exponent(bits) : wide_exponent + ref_exact_shift(maximum, bits);
}

// The smallest magnitude that narrowing to b bits by this shift clips: rounded to nearest even it
// is 2^(b-1). UINT64_MAX if none is so large.
REF_INLINE uint64_t ref_least_clipped(int shift, int bits) {
  if (shift == 0) return (uint64_t)1 << (bits - 1);
  return shift + bits > 65 ? UINT64_MAX : (((uint64_t)1 << bits) - 1) << (shift - 1);
}

// The smallest shift that does not clip this magnitude: it, too, depends on the leading bits alone.
REF_INLINE int ref_needed_shift(uint64_t size, int bits) {
  const int beyond = ref_bit_length(size) - (bits - 1), shift = beyond > 0 ? beyond : 0;
  return shift + (size >= ref_least_clipped(shift, bits) ? 1 : 0);
}

// The shift that a block gets from wide mantissas with this maximum, and its exponent: exact, but
// at most `limit`. A limit that leaves the range is none: the step fails.
REF_INLINE int ref_limited_shift(uint64_t maximum, int wide_exponent, int bits, int limit) {
  const int exact = ref_exact_shift(maximum, bits);
  if (limit >= REF_EXPONENT_MAX) return exact;
  return (int)ref_clamp(exact, 0, ref_larger(0, limit - wide_exponent));
}
REF_INLINE int ref_limited_exponent(uint64_t maximum, int wide_exponent, int bits, int limit) {
  if (maximum == 0) return ref_zero_exponent(bits);
  return wide_exponent + ref_limited_shift(maximum, wide_exponent, bits, limit);
}

// The headroom rule for gradients: step t uses the exponent measured in step t - 1, plus one, never
// finer than the wide exponent; without a measurement the wide exponent. The caller redoes the
// block with the measured exponent if that is larger, or if there was none.
REF_INLINE int ref_headroom_exponent(int measured, int wide_exponent) {
  return measured + 1 > wide_exponent ? measured + 1 : wide_exponent;
}

// Exponent of the sum of blocks with exponents a and b, that keeps so many bits below the larger
// exponent's unit.
REF_INLINE int ref_aligned_exponent(int a, int b, int align_bits) {
  return (int)ref_larger(ref_smaller(a, b), ref_larger(a, b) - align_bits);
}

// The accumulator's exponent for the next step, from its largest magnitude in this one. Never below
// the start: a batch that fits almost perfectly must not take the headroom from the next, ordinary
// one. And nothing finer than 2^-40 reaches a weight.
REF_INLINE int ref_next_accumulator_exponent(int exponent, uint64_t maximum) {
  if (maximum == 0) return exponent;
  return (int)ref_clamp(exponent + ref_bit_length(maximum) - REF_GRADIENT_ACCUMULATOR_BITS,
                        REF_GRADIENT_ACCUMULATOR_START, REF_EXPONENT_MAX);
}
