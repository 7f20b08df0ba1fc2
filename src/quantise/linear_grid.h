// Linear grids for numbers that were trained: a number becomes scale * q + offset with a whole q
// (METHODS section 3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace mantissa::quantise {

// The whole numbers that a mantissa may be: lo, lo + step, ..., hi. The step is 2 for {-1, +1}.
struct MantissaRange {
  int64_t lo = 0;
  int64_t hi = 0;
  int64_t step = 1;
  int64_t levels() const { return (hi - lo) / step + 1; }
  // The mantissa that a positive scale is derived from: hi, or -lo if hi is 0.
  int64_t reach() const { return hi > 0 ? hi : -lo; }
  bool operator==(const MantissaRange&) const = default;
};

// With n = 2^(bits - 1).
enum class RangeConvention {
  kFull,       // [-n, n - 1]; {-1, 0} with one bit
  kSymmetric,  // [-(n - 1), n - 1]; {-1, +1} with one bit
  kUnsigned,   // [0, 2 n - 1]
};

// 1 to 8, 16 or 24 bits (QuantInit [0123]).
inline bool are_bits_of_grids(int bits) {
  return (bits >= 1 && bits <= 8) || bits == 16 || bits == 24;
}

inline Result<MantissaRange> mantissa_range(int bits, RangeConvention convention) {
  if (!are_bits_of_grids(bits)) {
    return invalid_input(std::to_string(bits) + " bits for a grid; 1 to 8, 16 and 24 are possible");
  }
  const int64_t n = int64_t{1} << (bits - 1);
  switch (convention) {
    case RangeConvention::kFull:
      return MantissaRange{-n, n - 1};
    case RangeConvention::kSymmetric:
      return bits == 1 ? MantissaRange{-1, 1, 2} : MantissaRange{1 - n, n - 1};
    case RangeConvention::kUnsigned:
      return MantissaRange{0, 2 * n - 1};
  }
  return failed("a convention of ranges that does not exist");
}

// The whole number nearest to one below 2^51 in size, ties to even. Near 1.5 * 2^52 a double has no
// room for a fraction, so the addition rounds. std::nearbyint without the call.
inline double nearest_whole_number(double number) {
  constexpr double kLastBit = 0x1.8p52;
  return (number + kLastBit) - kLastBit;
}

// The nearest mantissa to a number that is not NaN, ties to even, clipped. For {-1, +1} the sign;
// zero of either sign gives +1.
inline int64_t nearest_mantissa(double number, const MantissaRange& range) {
  if (range.step == 2) return number >= 0 ? 1 : -1;
  return static_cast<int64_t>(nearest_whole_number(
      std::clamp(number, static_cast<double>(range.lo), static_cast<double>(range.hi))));
}

// The numbers scale * q + offset with q of a range. Unsigned grids are the grids of activations
// with offset m and saturation value beta (QuantInit [0089]): q = round(clip(x - m, 0, beta) /
// step) with step = beta / N and N = 2^bits - 1.
struct LinearGrid {
  double scale = 1;
  double offset = 0;
  MantissaRange range;

  int64_t mantissa(double number) const {
    return nearest_mantissa((number - offset) / scale, range);
  }
  double value(int64_t mantissa) const { return scale * static_cast<double>(mantissa) + offset; }
  double quantised(double number) const { return value(mantissa(number)); }
  double beta() const { return scale * static_cast<double>(range.hi - range.lo); }
};

}  // namespace mantissa::quantise
