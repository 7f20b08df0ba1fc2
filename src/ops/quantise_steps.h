// The arithmetic of `quantise`: the whole number for a mantissa.
#pragma once

#include <algorithm>
#include <cstdint>

#include "numerics/point_functions.h"
#include "numerics/real.h"
#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "tensor/tensor.h"

namespace mantissa::ops {

// A trained number of 16 bits.
struct GridNumber {
  int64_t mantissa = 0;
  int exponent = 0;
};

inline GridNumber grid_number(const Tensor& mantissa) {
  return {mantissa.as<int16_t>()[0], *mantissa.exponent};
}

// N of a `quantise` node.
inline int64_t quantise_levels(const QuantiseAttributes& attributes) {
  return attributes.is_signed ? mantissa_limit(attributes.bits)
                              : (int64_t{1} << attributes.bits) - 1;
}

// The range's mantissa. Training may move a range below zero: then the smallest grid is used.
inline int64_t range_mantissa(const GridNumber& range) {
  return std::max<int64_t>(1, range.mantissa);
}
inline Real range_of(const GridNumber& range) {
  return ldexp(Real(range_mantissa(range)), range.exponent);
}

// The steps of the grid in mantissas q of the input: v = q N 2^e / range, in whole numbers
// q * numerator / denominator.
class QuantiseSteps {
 public:
  QuantiseSteps(const QuantiseAttributes& attributes, const GridNumber& range, int input_exponent,
                const GridNumber& offset = {})
      : learns_within_(attributes.learns == Learns::kLsq),
        top_is_outside_(attributes.learns == Learns::kPact),
        bottom_is_outside_(attributes.learns == Learns::kHalfWave),
        has_offset_(attributes.offset) {
    const bool is_signed = attributes.is_signed;
    levels_ = quantise_levels(attributes);
    const int64_t mantissa = range_mantissa(range);
    range_ = range_of(range);
    // With steps further apart every x is zero, or beyond the range.
    constexpr int kMostShift = 30;
    const auto in_steps = [&](int exponent, int64_t& numerator, int64_t& denominator) {
      const int shift = std::clamp(exponent - range.exponent, -kMostShift, kMostShift);
      numerator = levels_ * (int64_t{1} << std::max(0, shift));
      denominator = mantissa * (int64_t{1} << std::max(0, -shift));
    };
    in_steps(input_exponent, numerator_, denominator_);
    low_ = is_signed ? -levels_ : 0;
    if (has_offset_) {
      int64_t numerator = 1, denominator = 1;
      in_steps(offset.exponent, numerator, denominator);
      low_ = std::clamp<int64_t>(rounded(offset.mantissa * numerator, denominator), -levels_, 0);
    }
    high_ = is_signed ? levels_ : low_ + levels_;
  }

  int64_t low() const { return low_; }
  int64_t high() const { return high_; }
  // N, the number of steps of the range.
  int64_t levels() const { return levels_; }
  const Real& range() const { return range_; }

  int64_t step(int64_t q) const {
    return std::clamp(rounded(q * numerator_, denominator_), low_, high_);
  }
  // Whether gradients pass: within the range, to which its ends belong unless `learns` says else.
  bool is_within(int64_t q) const { return !is_below(q) && !is_above(q); }
  // The bytes q within it: none if `low` is above `high`.
  MantissaRange bytes_within() const {
    int64_t low = INT8_MIN, high = INT8_MAX;
    while (low <= high && !is_within(low)) ++low;
    while (low <= high && !is_within(high)) --high;
    return low <= high ? MantissaRange{low, high} : MantissaRange{1, 0};
  }
  // The derivative of range / N * u by range, times N, in units of 2^-fraction. Beyond the range:
  // u, or with an offset N above and 0 below. Within it: u - v, or 0.
  int64_t range_factor(int64_t q, int fraction) const {
    const int64_t unit = int64_t{1} << fraction;
    if (is_above(q)) return levels_ * unit;
    if (is_below(q)) return has_offset_ ? 0 : low_ * unit;
    if (!learns_within_) return 0;
    return rounded((step(q) * denominator_ - q * numerator_) * unit, denominator_);
  }

 private:
  bool is_below(int64_t q) const {
    const int64_t v = q * numerator_, end = low_ * denominator_;
    return bottom_is_outside_ ? v <= end : v < end;
  }
  bool is_above(int64_t q) const {
    const int64_t v = q * numerator_, end = high_ * denominator_;
    return top_is_outside_ ? v >= end : v > end;
  }
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

  bool learns_within_, top_is_outside_, bottom_is_outside_, has_offset_;
  int64_t levels_ = 0, low_ = 0, high_ = 0;
  int64_t numerator_ = 1, denominator_ = 1;
  Real range_;
};

}  // namespace mantissa::ops
