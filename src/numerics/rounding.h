// Rounding, bit lengths and saturation: the only places where integers lose bits (METHODS section
// 0).
//
// Everything here is exact integer arithmetic, usable in vectorised loops and constant expressions;
// the definitions are the reference's, but for those in 128 bits.
#pragma once

#include <bit>
#include <cstdint>

#include "reference/numerics/numerics.h"

namespace mantissa {

// Number of bits of n >= 0: bit_length(0) = 0, bit_length(255) = 8.
constexpr int bit_length(uint64_t n) { return ref_bit_length(n); }

constexpr int bit_length(unsigned __int128 n) {
  const auto high = static_cast<uint64_t>(n >> 64);
  return high != 0 ? 64 + bit_length(high) : bit_length(static_cast<uint64_t>(n));
}

// floor(sqrt(n)).
constexpr uint32_t integer_root(uint64_t n) { return ref_integer_root(n); }

// floor(sqrt(n)) for n >= 2^126: the root of the upper half, then one division (P. Zimmermann,
// "Karatsuba square root", 1999).
constexpr uint64_t integer_root(unsigned __int128 n) {
  const auto high = static_cast<uint64_t>(n >> 64), low = static_cast<uint64_t>(n);
  const uint64_t root = integer_root(high);
  const uint64_t rest = high - root * root;  // at most 2 root
  const unsigned __int128 dividend = (static_cast<unsigned __int128>(rest) << 32) + (low >> 32);
  const auto digit = static_cast<uint64_t>(dividend / (2 * root));
  const auto left =
      static_cast<uint64_t>(dividend - static_cast<unsigned __int128>(digit) * 2 * root);
  const unsigned __int128 sum = (static_cast<unsigned __int128>(root) << 32) + digit;
  const __int128 over = (static_cast<__int128>(left) << 32) + (low & UINT32_MAX) -
                        static_cast<__int128>(digit) * static_cast<__int128>(digit);
  return static_cast<uint64_t>(over < 0 ? sum - 1 : sum);
}

// |n| without overflow at the minimum.
constexpr uint64_t magnitude(int64_t n) { return ref_magnitude(n); }

// n * 2^-shift rounded to nearest, ties to even. shift in [0, 62]; |n| < 2^62.
constexpr int64_t shift_right_rne(int64_t n, int shift) { return ref_shift_right_rne(n, shift); }

// n * 2^-shift rounded half up, floor(x + 1/2). shift in [0, 62]; |n| < 2^62.
constexpr int64_t shift_right_rhu(int64_t n, int shift) { return ref_shift_right_rhu(n, shift); }

// The largest magnitude of a b-bit mantissa: 2^(b-1) - 1 (symmetric range).
constexpr int64_t mantissa_limit(int bits) { return ref_mantissa_limit(bits); }

// n clipped to [-limit, limit].
constexpr int64_t saturate(int64_t n, int64_t limit) { return ref_saturate(n, limit); }

// Results of wide shifts stay within this magnitude, so that sums of two of them fit int64.
constexpr int64_t kWideLimit = REF_WIDE_LIMIT;

// n * 2^-shift for any shift: right shifts round to nearest even (0 once nothing can be left), left
// shifts saturate at kWideLimit. |n| <= 2^62.
constexpr int64_t rescale_rne(int64_t n, int shift) { return ref_rescale_rne(n, shift); }

// As rescale_rne, with right shifts rounding half up.
constexpr int64_t rescale_rhu(int64_t n, int shift) { return ref_rescale_rhu(n, shift); }

// numerator / denominator to the nearest integer, ties to even; denominator > 0, and the result
// fits int64.
constexpr int64_t divide_rne(__int128 numerator, int64_t denominator) {
  __int128 quotient = numerator / denominator, rest = numerator % denominator;
  if (rest < 0) {
    rest += denominator;
    --quotient;
  }
  const __int128 twice = 2 * rest;
  if (twice > denominator || (twice == denominator && quotient % 2 != 0)) ++quotient;
  return static_cast<int64_t>(quotient);
}

// sum + part for accumulators of weight gradients. The sum cannot wrap, and an overflow cannot stay
// hidden: a sum that reaches kWideLimit stays there, and the update then fails the step. |part| <=
// kWideLimit.
constexpr int64_t accumulate(int64_t sum, int64_t part) { return ref_accumulate(sum, part); }

}  // namespace mantissa
