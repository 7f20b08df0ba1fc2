// An integer times a float32 number as IEEE 754 computes it, by integer instructions: ONNX Runtime
// requantises sums this way. Exact to the bit, so that a network computes the same there.
#pragma once

#include <bit>
#include <cstdint>

#include "numerics/rounding.h"

namespace mantissa {

constexpr int kFloatBits = 24;  // of a float32 number's mantissa

// A float32 number as mantissa * 2^exponent, with a mantissa of 24 bits. For normal numbers and
// zero.
struct FloatParts {
  int64_t mantissa = 0;
  int exponent = 0;
};

constexpr FloatParts float_parts(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const int biased = static_cast<int>(bits >> 23 & 0xff);
  if (biased == 0) return {};
  const auto size = static_cast<int64_t>((bits & 0x7fffff) | 0x800000);
  return {bits >> 31 != 0 ? -size : size, biased - 150};
}

// The inverse, for a mantissa of up to 24 bits; 0 if the number is not normal.
constexpr float float_from(int64_t mantissa, int exponent) {
  const uint64_t size = magnitude(mantissa);
  if (size == 0) return 0;
  const int up = kFloatBits - bit_length(size), biased = exponent - up + 150;
  if (biased <= 0 || biased >= 255) return 0;
  const uint32_t sign = mantissa < 0 ? uint32_t{1} << 31 : 0;
  return std::bit_cast<float>(sign | static_cast<uint32_t>(biased) << 23 |
                              (static_cast<uint32_t>(size << up) & 0x7fffff));
}

// n rounded to nearest even to 24 significant bits. |n| < 2^62.
constexpr int64_t round_to_float(int64_t n) {
  const int cut = bit_length(magnitude(n)) - kFloatBits;
  return cut <= 0 ? n : shift_right_rne(n, cut) * (int64_t{1} << cut);
}

// rne(float32(float32(sum) * factor)), clipped to +-2^30.
constexpr int64_t times_float(int32_t sum, FloatParts factor) {
  const int64_t product = round_to_float(round_to_float(sum) * factor.mantissa);
  return saturate(rescale_rne(product, -factor.exponent), int64_t{1} << 30);
}

}  // namespace mantissa
