// Logarithm, exponential and hyperbolic tangent that are the same on every machine: a fixed order
// of operations that IEEE 754 rounds in one way. Errors are a few units of the last place of 1 or
// of the result, whichever is larger.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace mantissa::quantise {

// ln x of a normal x > 0.
inline double natural_logarithm(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // [1/2, 1)
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  // ln m = 2 artanh t, |t| < 0.172: t^25 is below 2^-63.
  const double t = (mantissa - 1) / (mantissa + 1), square = t * t;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return 2 * t * series + exponent * 0.69314718055994530942;
}

// For 0 to 15.
inline constexpr auto kInverseFactorials = [] {
  std::array<double, 16> result{};
  double factorial = 1;  // exact
  for (int k = 0; k < 16; ++k) {
    factorial *= k > 0 ? k : 1;
    result[static_cast<size_t>(k)] = 1 / factorial;
  }
  return result;
}();

// e^x for |x| <= 700.
inline double exponential(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double whole = std::nearbyint(x * 1.44269504088896340736);
  const double rest = (x - whole * kLn2High) - whole * kLn2Low;  // |rest| < 0.35
  double series = 0;
  for (int k = 15; k >= 0; --k) series = series * rest + kInverseFactorials[k];
  return std::ldexp(series, static_cast<int>(whole));
}

inline double hyperbolic_tangent(double x) {
  if (std::abs(x) > 20) return x > 0 ? 1 : -1;
  const double square = exponential(2 * x);
  return (square - 1) / (square + 1);
}

// The inverse, for |x| < 1.
inline double area_tangent(double x) { return natural_logarithm((1 + x) / (1 - x)) / 2; }

}  // namespace mantissa::quantise
