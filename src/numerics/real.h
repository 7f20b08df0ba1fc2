// Real scalars, per tensor and per channel, by integer instructions alone. They equal IEEE 754
// doubles rounded to nearest even, bit for bit, but overflow and underflow much later
// (DynamicFixed: machines without a floating-point unit; METHODS section 2).
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>
#include <utility>

#include "numerics/rounding.h"
#include "scalars/real.h"

namespace mantissa {

class Real {
 public:
  constexpr Real() = default;  // 0
  // Rounded to 53 bits.
  constexpr explicit Real(int64_t n) : Real(rounded(magnitude(n), n < 0, 0)) {}
  constexpr explicit Real(int n) : Real(int64_t{n}) {}
  constexpr explicit Real(__int128 n)
      : Real(rounded(n < 0 ? -static_cast<Wide>(n) : static_cast<Wide>(n), n < 0)) {}
  constexpr explicit Real(unsigned __int128 n) : Real(rounded(n, false)) {}

  // Takes a double apart and puts one together: no arithmetic. Infinities and NaN are not finite.
  // Numbers below the normal doubles are zero.
  constexpr explicit Real(double number) {
    const auto bits = std::bit_cast<uint64_t>(number);
    const int biased = static_cast<int>(bits >> kFractionBits & kMostBiased);
    if (biased == 0) return;
    if (biased == kMostBiased) {
      *this = not_finite();
      return;
    }
    const auto size = static_cast<int64_t>((bits & (kHidden - 1)) | static_cast<uint64_t>(kHidden));
    mantissa_ = bits >> 63 != 0 ? -size : size;
    exponent_ = biased - kBias - kFractionBits;
  }
  constexpr double to_double() const {
    const int biased = exponent_ + kBias + kFractionBits;
    const uint64_t sign = mantissa_ < 0 ? uint64_t{1} << 63 : 0;
    if (!is_finite()) return std::bit_cast<double>((uint64_t{kMostBiased} << kFractionBits) | 1);
    if (mantissa_ == 0 || biased <= 0) return std::bit_cast<double>(uint64_t{0});
    if (biased >= kMostBiased) {
      return std::bit_cast<double>(sign | (uint64_t{kMostBiased} << kFractionBits));
    }
    const uint64_t fraction = magnitude(mantissa_) & (kHidden - 1);
    return std::bit_cast<double>(sign | (static_cast<uint64_t>(biased) << kFractionBits) |
                                 fraction);
  }

  // The same number for functions of C.
  constexpr RefReal plain() const { return {mantissa_, exponent_}; }

  // False after a division by zero or a root of a negative number, and for results of these.
  constexpr bool is_finite() const { return exponent_ != kNotFinite; }
  constexpr bool is_zero() const { return mantissa_ == 0 && is_finite(); }

  constexpr Real operator-() const {
    Real result = *this;
    result.mantissa_ = -mantissa_;
    return result;
  }
  friend constexpr Real operator*(const Real& a, const Real& b) {
    if (!a.is_finite() || !b.is_finite()) return not_finite();
    constexpr int kCut = 42;  // of 105 or 106 bits
    const Wide product = Wide{magnitude(a.mantissa_)} * magnitude(b.mantissa_);
    const bool inexact = (product & ((Wide{1} << kCut) - 1)) != 0;
    return rounded(static_cast<uint64_t>(product >> kCut) | (inexact ? 1 : 0),
                   (a.mantissa_ < 0) != (b.mantissa_ < 0), a.exponent_ + b.exponent_ + kCut);
  }
  friend constexpr Real operator/(const Real& a, const Real& b) {
    if (!a.is_finite() || !b.is_finite() || b.mantissa_ == 0) return not_finite();
    constexpr int kGuardBits = 60;  // the quotient has 60 bits or 61
    const Wide numerator = Wide{magnitude(a.mantissa_)} << kGuardBits;
    const uint64_t divisor = magnitude(b.mantissa_);
    const auto quotient = static_cast<uint64_t>(numerator / divisor);
    const bool inexact = Wide{quotient} * divisor != numerator;
    return rounded(quotient | (inexact ? 1 : 0), (a.mantissa_ < 0) != (b.mantissa_ < 0),
                   a.exponent_ - b.exponent_ - kGuardBits);
  }
  friend constexpr Real operator+(const Real& a, const Real& b) {
    if (!a.is_finite() || !b.is_finite()) return not_finite();
    if (a.mantissa_ == 0) return b;
    if (b.mantissa_ == 0) return a;
    const Real &large = a.exponent_ >= b.exponent_ ? a : b, &small = &large == &a ? b : a;
    // Nine bits below the larger unit. The lowest one is set if anything lies below it. If more
    // than one bit is cancelled, nothing does.
    constexpr int kGuardBits = 9;
    constexpr int64_t kGuard = int64_t{1} << kGuardBits;
    const int distance = std::min(large.exponent_ - small.exponent_, 63);
    const int64_t whole = small.mantissa_ * kGuard, shifted = whole >> distance;
    const bool inexact = (static_cast<uint64_t>(whole) & ((uint64_t{1} << distance) - 1)) != 0;
    const int64_t sum = large.mantissa_ * kGuard + (shifted | (inexact ? 1 : 0));
    return rounded(magnitude(sum), sum < 0, large.exponent_ - kGuardBits);
  }
  friend constexpr Real operator-(const Real& a, const Real& b) { return a + -b; }

  friend constexpr bool operator==(const Real&, const Real&) = default;
  // Compares finite numbers.
  friend constexpr bool operator<(const Real& a, const Real& b) { return (a - b).mantissa_ < 0; }

  friend constexpr Real abs(const Real& a) { return a.mantissa_ < 0 ? -a : a; }

  // a * 2^exponent.
  friend constexpr Real ldexp(Real a, int exponent) {
    if (a.is_finite() && a.mantissa_ != 0) a.exponent_ += exponent;
    return a;
  }

  friend constexpr Real sqrt(const Real& a) {
    if (!a.is_finite() || a.mantissa_ < 0) return not_finite();
    if (a.mantissa_ == 0) return a;
    const int left = 74 + (a.exponent_ & 1);  // to 127 or 128 bits, and an even exponent
    const Wide square = Wide{magnitude(a.mantissa_)} << left;
    const uint64_t root = integer_root(square);  // of 64 bits
    const bool inexact = Wide{root} * root != square;
    return rounded(root | (inexact ? 1 : 0), false, (a.exponent_ - left) / 2);
  }

  // k with 2^(bits-1) <= peak * 2^k < 2^bits for peak != 0; 0 for peak = 0.
  friend constexpr int fixed_point_shift(const Real& peak, int bits) {
    return peak.mantissa_ == 0 ? 0 : bits - (peak.exponent_ + kFractionBits + 1);
  }

  // real * 2^shift rounded to nearest even, clipped to +-limit. 0 if it is not finite.
  friend constexpr int64_t to_fixed_point(const Real& real, int shift, int64_t limit) {
    if (real.mantissa_ == 0) return 0;
    const int right = -(real.exponent_ + shift);
    if (right > 62) return 0;
    if (right < -8) return real.mantissa_ < 0 ? -limit : limit;
    const int64_t scaled = right >= 0 ? shift_right_rne(real.mantissa_, right)
                                      : real.mantissa_ * (int64_t{1} << -right);
    return saturate(scaled, limit);
  }

 private:
  using Wide = unsigned __int128;
  static constexpr int kFractionBits = 52;
  static constexpr int64_t kHidden = int64_t{1} << kFractionBits;
  static constexpr int kBias = 1023, kMostBiased = 2047;
  static constexpr int kNotFinite = INT_MAX;
  static constexpr int kMostExponent = 1 << 20;  // of results: far beyond, so that sums of two fit

  static constexpr Real not_finite() {
    Real result;
    result.exponent_ = kNotFinite;
    return result;
  }

  // +-size * 2^exponent to 53 bits. If `size` has more than 54 bits, its lowest may stand for all
  // bits below.
  static constexpr Real rounded(uint64_t size, bool negative, int exponent) {
    Real result;
    if (size == 0) return result;
    const int cut = bit_length(size) - (kFractionBits + 1);
    auto mantissa = static_cast<int64_t>(cut <= 0 ? size << -cut : size >> cut);
    if (cut > 0) {
      const uint64_t rest = size & ((uint64_t{1} << cut) - 1), half = uint64_t{1} << (cut - 1);
      mantissa += rest > half || (rest == half && (mantissa & 1) != 0) ? 1 : 0;
    }
    result.exponent_ = exponent + cut;
    if (mantissa == 2 * kHidden) {
      mantissa = kHidden;
      ++result.exponent_;
    }
    result.mantissa_ = negative ? -mantissa : mantissa;
    if (result.exponent_ < -kMostExponent) return Real();
    return result.exponent_ > kMostExponent ? not_finite() : result;
  }

  // The same of a wide integer.
  static constexpr Real rounded(Wide size, bool negative) {
    const auto high = static_cast<uint64_t>(size >> 64);
    if (high == 0) return rounded(static_cast<uint64_t>(size), negative, 0);
    const int cut = bit_length(high);
    const bool inexact = (size & ((Wide{1} << cut) - 1)) != 0;
    return rounded(static_cast<uint64_t>(size >> cut) | (inexact ? 1 : 0), negative, cut);
  }

  int64_t mantissa_ = 0;  // 0, or of 53 bits
  int exponent_ = 0;
};

}  // namespace mantissa
