// A logarithm that is the same on every machine: fixed operations, each of which IEEE 754 rounds in
// one way.
#pragma once

#include <cmath>

namespace mantissa::quantize {

// ln x of a normal x > 0, with an error of a few units of the last place of max(1, |ln x|).
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

}  // namespace mantissa::quantize
