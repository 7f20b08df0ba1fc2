// Weights on a fixed grid (METHODS section 3; QuantInit [0123]): the whole numbers that W may be,
// and the range of V, the number that is trained (lazy_update.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "numerics/lazy_update.h"

namespace mantissa {

// With n = 2^(bits - 1).
struct WeightGrid {
  int bits = 0;          // 1 to 7; 0: the weights are not on such a grid
  bool is_full = false;  // -n to n - 1, else -(n - 1) to n - 1; with one bit {-1, 0}, else {-1, +1}
  // V may leave the ends of the grid, and its gradient stops where |V| > n (QuantInit [0059]). Else
  // V is clipped at the ends.
  bool stops = false;

  constexpr bool is_sign() const { return bits == 1 && !is_full; }
  // Whether W is V rounded and clipped, and every V has room when it is rounded.
  constexpr bool is_plain() const { return !is_full && !is_sign() && !stops; }
  constexpr int64_t low() const { return is_full || is_sign() ? -half() : 1 - half(); }
  constexpr int64_t high() const { return is_sign() ? 1 : half() - 1; }
  // Symmetric mantissas of this many bits hold all W.
  constexpr int mantissa_bits() const { return is_full || is_sign() ? bits + 1 : bits; }
  constexpr bool operator==(const WeightGrid&) const = default;

  // The smallest and the largest V: the ends of the grid or, if gradients stop, the first V beyond
  // n. If W ends at n - 1 the accumulator has no room for that V: then it is the last V before n.
  constexpr int64_t lowest(int shift) const {
    const int64_t unit = int64_t{1} << shift;
    if (!stops || shift == 0) return low() * unit;
    return -half() * unit + (low() == -half() ? -1 : 1);
  }
  constexpr int64_t highest(int shift) const {
    const int64_t unit = int64_t{1} << shift;
    if (!stops || shift == 0) return high() * unit;
    return half() * unit + (high() == half() ? 1 : -1);
  }
  constexpr bool is_stopped(int64_t value, int shift) const {
    return stops && shift > 0 && (value <= lowest(shift) || value >= highest(shift));
  }

  // W and A of a V, which is clipped: the nearest W, ties to the larger one. For {-1, +1} the sign:
  // zero becomes +1 and, so that A has room, the smallest positive V.
  constexpr LazySplit split(int64_t value, int shift) const {
    value = std::clamp(value, lowest(shift), highest(shift));
    if (is_sign() && shift > 0) value = value == 0 ? 1 : value;
    const int64_t weight =
        is_sign() ? (value >= 0 ? 1 : -1)
                  : std::clamp(lazy_split_rescaled(value, shift).weight, low(), high());
    return {weight, weight * (int64_t{1} << shift) - value};
  }
  // Whether W and A could come from split, up to ties.
  constexpr bool is_split(int64_t weight, int64_t waiting, int shift) const {
    const int64_t unit = int64_t{1} << shift, value = lazy_value(weight, waiting, shift);
    if (weight < low() || weight > high() || (is_sign() && weight == 0)) return false;
    if (value < lowest(shift) || value > highest(shift)) return false;
    if (is_sign()) return value == 0 ? shift == 0 : (value > 0) == (weight > 0);
    const bool is_at_end = (weight == low() && waiting > 0) || (weight == high() && waiting < 0);
    return is_at_end || 2 * (waiting < 0 ? -waiting : waiting) <= unit;
  }

 private:
  constexpr int64_t half() const { return int64_t{1} << (bits - 1); }
};

}  // namespace mantissa
