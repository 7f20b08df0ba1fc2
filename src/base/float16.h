// Real numbers of 16 bits, float16 (IEEE 754) and bfloat16, from and to float. The way back rounds
// to nearest, ties to even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace mantissa {

inline float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const int exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f80'0000 | fraction << 13);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

inline uint16_t to_float16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(number)) return static_cast<uint16_t>(sign | 0x7e00);
  const float magnitude = std::fabs(number);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The place of the last of 11 bits, or of the least subnormal.
  const int unit = std::max(exponent - 11, -24);
  const auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A mantissa of 2048 carries into the exponent by itself.
  const uint32_t whole =
      unit == -24 ? mantissa : (static_cast<uint32_t>(unit + 25) << 10) + mantissa - 0x400;
  return static_cast<uint16_t>(sign | whole);
}

inline float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t to_bfloat16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace mantissa
