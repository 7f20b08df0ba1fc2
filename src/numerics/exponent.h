// How a block's exponent is chosen: pure functions from measurements to exponents.
//
// A tensor is mantissa * 2^exponent. `maximum` is always max |wide mantissa|; a policy answers with
// the shift from the wide mantissas to the narrow ones. Source: BlockFloat [0084]-[0086], METHODS
// sections 0.7 and 1.
#pragma once

#include <algorithm>
#include <cstdint>

#include "numerics/rounding.h"
#include "reference/numerics/exponents.h"

namespace mantissa {

// Exponents are kept in int16 and must stay within the 8 bits of BlockFloat [0077].
constexpr int kExponentMin = REF_EXPONENT_MIN;
constexpr int kExponentMax = REF_EXPONENT_MAX;

constexpr bool exponent_in_range(int exponent) { return ref_exponent_in_range(exponent); }

// Exponent of an all-zero block of b-bit mantissas: as for a maximum of 2^-8.
constexpr int zero_exponent(int bits) { return ref_zero_exponent(bits); }

// The right shift that brings wide mantissas with this maximum to b bits:
// max(0, bit_length(maximum - 1) - (b - 1)). A maximum that rounds to 2^(b-1) saturates.
constexpr int exact_shift(uint64_t maximum, int bits) { return ref_exact_shift(maximum, bits); }

// The same, and the exponent of the block, if its exponent is at most `limit` (from kExponentMax
// on: any).
constexpr int limited_shift(uint64_t maximum, int wide_exponent, int bits, int limit) {
  return ref_limited_shift(maximum, wide_exponent, bits, limit);
}
constexpr int limited_exponent(uint64_t maximum, int wide_exponent, int bits, int limit) {
  return ref_limited_exponent(maximum, wide_exponent, bits, limit);
}

// The exponent of the block after requantising to b bits exactly.
constexpr int exact_exponent(uint64_t maximum, int wide_exponent, int bits) {
  return ref_exact_exponent(maximum, wide_exponent, bits);
}

// The smallest magnitude that narrowing to b bits by this shift clips: rounded to nearest even it
// is 2^(b-1). UINT64_MAX if none is so large.
constexpr uint64_t least_clipped(int shift, int bits) { return ref_least_clipped(shift, bits); }

// The smallest shift that does not clip this magnitude: it, too, depends on the leading bits alone.
constexpr int needed_shift(uint64_t size, int bits) { return ref_needed_shift(size, bits); }

// If channels have exponents of their own: the most that one lies below its tensor's exponent.
// Below that nothing is left of 32-bit sums.
constexpr int kMostChannelShift = 31;

// The exponent of a channel's weights does not shrink further below the largest of its tensor. A
// 16-bit gradient, aligned to that one, then keeps some bits.
constexpr int kMostChannelSpread = 12;

// No measurement yet (first step, or the last block was all zero).
constexpr int16_t kUnmeasured = REF_UNMEASURED;

// The headroom rule for gradients: step t uses the exponent measured in step t - 1, plus one, never
// finer than the wide exponent; without a measurement the wide exponent. The caller redoes the
// block with the measured exponent if that is larger, or if there was none.
constexpr int headroom_exponent(int16_t measured, int wide_exponent) {
  return ref_headroom_exponent(measured, wide_exponent);
}

// Aligning two addends: bits kept below the larger exponent's unit. Beyond, the smaller addend is
// rounded (to nearest even) to that exponent, so that the sum fits its accumulator.
constexpr int kAlignBits8 = 16;   // 8-bit addends, sums in int32
constexpr int kAlignBits16 = 40;  // 16-bit addends, sums in int64
constexpr int kAlignBits32 = 29;  // 32-bit addends, sums in int64

// Exponent of the sum of blocks with exponents a and b.
constexpr int aligned_exponent(int a, int b, int align_bits) {
  return ref_aligned_exponent(a, b, align_bits);
}

// The accumulator of weight gradients (int64) keeps this many bits below last step's largest sum.
// Sums from 2^60 on fail the step, so 20 bits are headroom. Its exponent is fixed at the start of a
// step (METHODS section 0.7).
constexpr int kGradientAccumulatorBits = REF_GRADIENT_ACCUMULATOR_BITS;
constexpr int kGradientAccumulatorStart = REF_GRADIENT_ACCUMULATOR_START;

// The accumulator's exponent for the next step, from its largest magnitude in this one. Never below
// the start: a batch that fits almost perfectly must not take the headroom from the next, ordinary
// one. And nothing finer than 2^-40 reaches a weight.
constexpr int next_accumulator_exponent(int exponent, uint64_t maximum) {
  return ref_next_accumulator_exponent(exponent, maximum);
}

}  // namespace mantissa
