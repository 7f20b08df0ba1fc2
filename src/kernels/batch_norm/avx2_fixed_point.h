// a * m + b * n + offset, exactly, in 32-bit lanes; a and b are int16, m and n int32. Include it
// outside of any region.
//
// AVX2 has no arithmetic shift, minimum or narrowing of 64-bit lanes. So multipliers are split into
// halves of 16 bits, of which _mm256_madd_epi16 needs two for eight results: a result is
// high * 2^16 + low, 0 <= low < 2^16. It is rounded by adding a half and shifting `high`, which is
// wrong for ties only, where the callers take care of them.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/target.h"
#include "kernels/batch_norm/avx2_strips.h"
#include "numerics/rounding.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::batch_norm_avx2 {
namespace {

// The half is a multiple of 2^16, and `high` is shifted by less than its width.
constexpr int kSmallestShift = 17, kLargestShift = 47;

constexpr bool can_shift(int shift) { return kSmallestShift <= shift && shift <= kLargestShift; }

constexpr int64_t low_half(int64_t n) { return static_cast<int16_t>(n & 0xffff); }
constexpr int64_t high_half(int64_t n) { return (n - low_half(n)) >> 16; }

// The half that rounding adds.
constexpr int64_t half_of(int shift) { return int64_t{1} << (shift - 1); }

// Whether no step of a * m + b * n + offset + half leaves its lanes, for |a| <= 2^a_bits etc.
constexpr bool fits(int a_bits, int64_t m, int b_bits, int64_t n, int64_t offset, int shift) {
  if (high_half(m) > INT16_MAX || high_half(n) > INT16_MAX) return false;
  constexpr uint64_t kCarry = 1 << 15;  // of the lower halves
  return (magnitude(high_half(m)) << a_bits) + (magnitude(high_half(n)) << b_bits) + kCarry +
             magnitude(offset >> 16) + magnitude(half_of(shift) >> 16) <=
         INT32_MAX;
}

// The constants of a strip, in the order in which _mm256_unpacklo_epi16 and _mm256_unpackhi_epi16
// give its lanes: 0-3, 8-11; 4-7, 12-15.
struct alignas(32) StripConstants {
  int16_t low[2 * kLanes], high[2 * kLanes];  // pairs: of m and n
  int32_t low_offset[kLanes], high_offset[kLanes];

  void set(int64_t lane, int64_t m, int64_t n, int64_t offset) {
    const int64_t at = (lane & 3) | (lane & 4) << 1 | (lane & 8) >> 1;
    low[2 * at] = static_cast<int16_t>(low_half(m));
    low[2 * at + 1] = static_cast<int16_t>(low_half(n));
    high[2 * at] = static_cast<int16_t>(high_half(m));
    high[2 * at + 1] = static_cast<int16_t>(high_half(n));
    low_offset[at] = static_cast<int32_t>(offset & 0xffff);
    high_offset[at] = static_cast<int32_t>(offset >> 16);
  }
};

// Eight results; of `low` only the lower 16 bits count.
struct Wide {
  __m256i high, low;
};

// The first or second eight lanes of a strip. Without kLowOffset offsets are multiples of 2^16.
template <bool kLowOffset>
struct HalfStrip {
  __m256i low, high, low_offset, high_offset;

  HalfStrip(const StripConstants& strip, int half)
      : low(load32(strip.low + half * kLanes)),
        high(load32(strip.high + half * kLanes)),
        low_offset(load32(strip.low_offset + half * kLanes / 2)),
        high_offset(load32(strip.high_offset + half * kLanes / 2)) {}
  // `pairs`: a and b of eight lanes.
  MANTISSA_INLINE Wide operator()(__m256i pairs) const {
    __m256i lower = _mm256_madd_epi16(pairs, low);
    if constexpr (kLowOffset) lower = _mm256_add_epi32(lower, low_offset);
    const __m256i upper = _mm256_add_epi32(_mm256_madd_epi16(pairs, high), high_offset);
    return {_mm256_add_epi32(upper, _mm256_srai_epi32(lower, 16)), lower};
  }
};

// Calls visit(block, constants) for all blocks of at most `height` rows, and before that
// set(channel, constants) for each strip, where `channel` is that of its first lane.
template <typename Set, typename Visit>
MANTISSA_INLINE void for_each_block_with_constants(const LongRows& rows, int64_t short_channels,
                                                   int64_t height, Set&& set, Visit&& visit) {
  constexpr int64_t kStrips = 32;  // at a time, so that constants stay in the nearest cache
  StripConstants constants[kStrips];
  const int64_t strips = rows.channels / kLanes;
  if (rows.rows == 0) return;
  for (int64_t begin = 0; begin < strips; begin += kStrips) {
    const int64_t end = std::min(strips, begin + kStrips);
    for (int64_t strip = begin; strip < end; ++strip) {
      set(strip * kLanes % short_channels, constants[strip - begin]);
    }
    for_each_block(
        rows, short_channels, begin, end, height,
        [&](const Block& block, int64_t strip) { visit(block, constants[strip - begin]); });
  }
}

}  // namespace
}  // namespace mantissa::kernels::batch_norm_avx2

MANTISSA_TARGET_END
