// Rounding, bit lengths, saturation, roots and quotients: the only places where integers lose bits
// (METHODS section 0). One source for C and C++; nothing needs more than 64 bits.
#pragma once

#include "reference/types.h"

// Number of bits of n: 0 for 0, 8 for 255.
REF_INLINE int ref_bit_length(uint64_t n) {
#if defined(__x86_64__) || defined(__aarch64__)
  return n == 0 ? 0 : 64 - __builtin_clzll(n);
#else  // elsewhere the compiler might call its library
  int length = 0;
  for (int step = 32; step != 0; step >>= 1) {
    const bool above = (n >> step) != 0;
    length += above ? step : 0;
    n = above ? n >> step : n;
  }
  return length + (int)n;
#endif
}

// |n| without overflow at the minimum.
REF_INLINE uint64_t ref_magnitude(int64_t n) { return n < 0 ? 0 - (uint64_t)n : (uint64_t)n; }

REF_INLINE int64_t ref_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
REF_INLINE int64_t ref_larger(int64_t a, int64_t b) { return a > b ? a : b; }

// n within [low, high].
REF_INLINE int64_t ref_clamp(int64_t n, int64_t low, int64_t high) {
  return n < low ? low : n > high ? high : n;
}

// n clipped to [-limit, limit].
REF_INLINE int64_t ref_saturate(int64_t n, int64_t limit) {
  return n > limit ? limit : (n < -limit ? -limit : n);
}

// The largest magnitude of a b-bit mantissa: 2^(b-1) - 1 (symmetric range).
REF_INLINE int64_t ref_mantissa_limit(int bits) { return ((int64_t)1 << (bits - 1)) - 1; }

// n * 2^-shift rounded to nearest, ties to even. shift in [0, 62]; |n| < 2^62: the sum stays below
// 2^62 + 2^61.
REF_INLINE int64_t ref_shift_right_rne(int64_t n, int shift) {
  if (shift == 0) return n;
  const int64_t half = (int64_t)1 << (shift - 1);
  return (n + half - 1 + ((n >> shift) & 1)) >> shift;
}

// n * 2^-shift rounded half up, floor(x + 1/2). shift in [0, 62]; |n| < 2^62.
REF_INLINE int64_t ref_shift_right_rhu(int64_t n, int shift) {
  if (shift == 0) return n;
  return (n + ((int64_t)1 << (shift - 1))) >> shift;
}

// Results of wide shifts stay within this magnitude, so that sums of two of them fit int64.
#define REF_WIDE_LIMIT (INT64_C(1) << 61)

// n * 2^-shift for any shift: right shifts round to nearest even (0 once nothing can be left), left
// shifts saturate at 2^61. |n| <= 2^62.
REF_INLINE int64_t ref_rescale_rne(int64_t n, int shift) {
  if (shift > 62) return 0;
  if (shift >= 0) return ref_shift_right_rne(n, shift);
  const int left = -shift;
  if (n == 0) return 0;
  if (ref_bit_length(ref_magnitude(n)) + left > 61) return n < 0 ? -REF_WIDE_LIMIT : REF_WIDE_LIMIT;
  return n * ((int64_t)1 << left);
}

// As ref_rescale_rne, with right shifts rounding half up.
REF_INLINE int64_t ref_rescale_rhu(int64_t n, int shift) {
  if (shift > 62) return 0;
  if (shift >= 0) return ref_shift_right_rhu(n, shift);
  return ref_rescale_rne(n, shift);
}

// sum + part for accumulators of weight gradients. The sum cannot wrap, and an overflow cannot stay
// hidden: a sum that reaches 2^61 stays there, and the update then fails the step. |part| <= 2^61.
REF_INLINE int64_t ref_accumulate(int64_t sum, int64_t part) {
  if (ref_magnitude(sum) >= (uint64_t)REF_WIDE_LIMIT) return sum;
  return ref_saturate(sum + part, REF_WIDE_LIMIT);
}

// floor(sqrt(n)), a bit of the root in each round. Proof: before a round `root` holds the bits r
// that were found, as r * 2 * sqrt(bit) * 2, and n the rest n0 - r^2. The next bit b fits if
// (r + b)^2 <= n0, that is 2 r b + b^2 = root + bit <= n.
REF_INLINE uint32_t ref_integer_root(uint64_t n) {
  uint64_t root = 0;
  for (uint64_t bit = n == 0 ? 0 : (uint64_t)1 << ((ref_bit_length(n) - 1) / 2 * 2); bit != 0;
       bit >>= 2) {
    const bool fits = n >= root + bit;
    n -= fits ? root + bit : 0;
    root = (root >> 1) + (fits ? bit : 0);
  }
  return (uint32_t)root;
}

// numerator / denominator to the nearest integer, ties to even; 0 < denominator, and |numerator| <
// 2^63. The floor q has a rest r in [0, denominator); r > denominator - r needs no sum of two.
REF_INLINE int64_t ref_divide_rne(int64_t numerator, int64_t denominator) {
  int64_t quotient = numerator / denominator, rest = numerator % denominator;
  if (rest < 0) {
    rest += denominator;
    --quotient;
  }
  const int64_t other = denominator - rest;
  if (rest > other || (rest == other && quotient % 2 != 0)) ++quotient;
  return quotient;
}

// (high * 2^bits + low) * 2^-shift to nearest, ties to even; 0 <= low, 0 <= bits < shift < bits +
// 63 and |high| + low * 2^-bits < 2^62. Proof: with s = high + floor(low * 2^-bits) the number is
// (s * 2^bits + cut) * 2^-shift, 0 <= cut < 2^bits. If cut > 0 it lies strictly between s and s + 1
// units of 2^(bits - shift), so that half a unit of the result, a whole s, rounds up and less down:
// as s + half does. If cut = 0 this is the rounding of s.
REF_INLINE int64_t ref_round_pair(int64_t high, int64_t low, int bits, int shift) {
  const int64_t sum = high + (low >> bits), cut = low & (((int64_t)1 << bits) - 1);
  const int left = shift - bits;
  const int64_t half = (int64_t)1 << (left - 1);
  const int64_t up = cut != 0 ? 1 : (sum >> left) & 1;
  return (sum + half - 1 + up) >> left;
}

// n * factor * 2^-shift to nearest, ties to even, for 0 < shift <= 31, |factor| < 2^(62 - shift)
// and a result below 2^62. Proof: n = high * 2^shift + low with 0 <= low < 2^shift, so that the
// number is the whole high * factor and (low * factor) * 2^-shift, whose floor and rest decide.
REF_INLINE int64_t ref_times_rne(int64_t n, int64_t factor, int shift) {
  const int64_t mask = ((int64_t)1 << shift) - 1, half = (int64_t)1 << (shift - 1);
  const int64_t below = (n & mask) * factor, rest = below & mask;
  const int64_t floor = (n >> shift) * factor + (below >> shift);
  return floor + (rest > half || (rest == half && floor % 2 != 0) ? 1 : 0);
}

// high * 2^32 + low: sums of squares and of products that 64 bits do not hold.
typedef struct RefWide {
  uint64_t high REF_CXX(= 0);
  uint64_t low REF_CXX(= 0);
} RefWide;

// sum + n^2 for |n| < 2^42 and up to 2^20 terms. Proof: with n = a * 2^21 + b, a < 2^21, b < 2^21,
// n^2 = a^2 * 2^42 + (2 a b) * 2^21 + b^2. In units of 2^32 the first term is a^2 * 2^10, below
// 2^52, and 2 a b * 2^21 = (2 a b >> 11) * 2^32 + (2 a b mod 2^11) * 2^21. Low terms are below
// 2^32 + 2^42.
REF_INLINE RefWide ref_add_square(RefWide sum, int64_t n) {
  const uint64_t size = ref_magnitude(n), a = size >> 21, b = size & 0x1fffff, twice = 2 * a * b;
  sum.high += (a * a << 10) + (twice >> 11);
  sum.low += ((twice & 0x7ff) << 21) + b * b;
  return sum;
}

// n / (divisor * 2^24) to nearest, ties to even, for 0 < divisor < 2^31 and a quotient below 2^62.
// Proof: long division by digits of 32 bits, whose rests stay below the divisor, gives the floor of
// n / divisor and a rest; the last 24 bits are rounded with that rest as a cut (ref_round_pair).
REF_INLINE int64_t ref_divide_wide_rne(RefWide n, uint64_t divisor) {
  const uint64_t carried = n.high + (n.low >> 32), low = n.low & 0xffffffff;
  const uint64_t upper = carried / divisor, rest = carried % divisor;
  const uint64_t lower = ((rest << 32) + low) / divisor, last = ((rest << 32) + low) % divisor;
  // The floor is upper * 2^32 + lower, lower < 2^32, and 24 of its bits are cut off.
  const int64_t floor = (int64_t)((upper << 8) + (lower >> 24));
  const uint64_t cut = lower & 0xffffff, half = (uint64_t)1 << 23;
  return floor + (cut > half || (cut == half && (last != 0 || floor % 2 != 0)) ? 1 : 0);
}
