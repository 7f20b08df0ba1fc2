// The arithmetic of `quantise`: which whole number stands for a mantissa.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/attributes.h"
#include "numerics/point_functions.h"
#include "numerics/real.h"
#include "numerics/rounding.h"

namespace mantissa::ops {

// The steps of the grid in mantissas q of the input: v = q N 2^e / range, in whole numbers
// q * numerator / denominator.
class QuantiseSteps {
 public:
  QuantiseSteps(const Attributes& attributes, int64_t range_mantissa, int range_exponent,
                int input_exponent)
      : learns_within_(attributes.text("learns") == "lsq") {
    const auto bits = static_cast<int>(attributes.whole("bits"));
    const bool is_signed = attributes.is_set("signed");
    high_ = is_signed ? mantissa_limit(bits) : (int64_t{1} << bits) - 1;
    low_ = is_signed ? -high_ : 0;
    // Training may take a range below zero: the smallest grid takes its place.
    const int64_t mantissa = std::max<int64_t>(1, range_mantissa);
    range_ = ldexp(Real(mantissa), range_exponent);
    // Further apart every x is zero, or beyond the range.
    constexpr int kMostShift = 30;
    const int shift = std::clamp(input_exponent - range_exponent, -kMostShift, kMostShift);
    numerator_ = high_ * (int64_t{1} << std::max(0, shift));
    denominator_ = mantissa * (int64_t{1} << std::max(0, -shift));
  }

  int64_t low() const { return low_; }
  int64_t high() const { return high_; }
  const Real& range() const { return range_; }

  int64_t step(int64_t q) const {
    return std::clamp(rounded(q * numerator_, denominator_), low_, high_);
  }
  bool is_within(int64_t q) const {
    const int64_t v = q * numerator_;
    return v >= low_ * denominator_ && v <= high_ * denominator_;
  }
  // The bytes q that are within, 0 among them.
  MantissaRange bytes_within() const {
    int64_t low = INT8_MIN, high = INT8_MAX;
    while (!is_within(low)) ++low;
    while (!is_within(high)) --high;
    return {low, high};
  }
  // The derivative of range / N * u by range, times N, in units of 2^-fraction: u beyond the range,
  // u - v within it, or 0.
  int64_t range_factor(int64_t q, int fraction) const {
    const int64_t unit = int64_t{1} << fraction;
    if (!is_within(q)) return step(q) * unit;
    if (!learns_within_) return 0;
    return rounded((step(q) * denominator_ - q * numerator_) * unit, denominator_);
  }

 private:
  // n / d to the nearest whole number, ties to even; d > 0.
  static int64_t rounded(int64_t n, int64_t d) {
    int64_t quotient = n / d, rest = n % d;
    if (rest < 0) {
      rest += d;
      --quotient;
    }
    const bool up = 2 * rest > d || (2 * rest == d && quotient % 2 != 0);
    return quotient + (up ? 1 : 0);
  }

  bool learns_within_;
  int64_t low_ = 0, high_ = 0;
  int64_t numerator_ = 1, denominator_ = 1;
  Real range_;
};

}  // namespace mantissa::ops
