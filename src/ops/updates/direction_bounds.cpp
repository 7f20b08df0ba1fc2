#include "ops/updates/direction_bounds.h"

#include <algorithm>

namespace mantissa::ops {
namespace {

constexpr int kHalfBits = 15;  // of the factors of a sketch, and of |v| and |G >> gradient_shift|
constexpr int64_t kHalfLimit = (int64_t{1} << kHalfBits) - 1;
// In the units of a sketch: its factors are rounded by half a unit, or clipped by less than one,
// each times 15 bits; G is rounded by less than a unit, times a factor of 15 bits.
constexpr int64_t kSketchError = int64_t{3} << kHalfBits;
// In the units of `wide`: multipliers are rounded by half a unit, and are of factors of up to 31
// bits; g is rounded by half a unit, and its multiplier has up to 28 bits.
constexpr int64_t kWideError = int64_t{1} << 33;

}  // namespace

WideBounds in_wide_units(const DirectionBounds& bounds, int wide_exponent) {
  constexpr int64_t kMost = int64_t{1} << 62;
  return {to_fixed_point(bounds.least, -wide_exponent, kMost) - kWideError,
          to_fixed_point(bounds.most, -wide_exponent, kMost) + kWideError};
}

ScaledSketch sketch_direction(const Real& gradient_unit, const Real& velocity_unit,
                              const int16_t* velocity, int gradient_bits, int sum_bits) {
  constexpr int kSpareBits = 1;
  ScaledSketch result{.sketch = {.velocity = velocity}};
  kernels::DirectionSketch& sketch = result.sketch;
  sketch.gradient_shift =
      std::clamp(gradient_bits + kSpareBits - kHalfBits, 0, sum_bits <= 32 ? 31 : 62);
  const Real shifted_unit = ldexp(gradient_unit, sketch.gradient_shift);
  const Real largest = velocity_unit < shifted_unit ? shifted_unit : velocity_unit;
  const int shift = fixed_point_shift(largest, kHalfBits);
  sketch.gradient_factor = static_cast<int>(to_fixed_point(shifted_unit, shift, kHalfLimit));
  sketch.velocity_factor = static_cast<int>(to_fixed_point(velocity_unit, shift, kHalfLimit));
  result.exponent = -shift;
  return result;
}

DirectionBounds bounds_of(const ScaledSketch& sketch, const kernels::SketchExtremes& found,
                          const Real& rest) {
  const int shift = sketch.sketch.gradient_shift;
  if (found.gradient.low > found.gradient.high) return {};
  if (found.gradient.low >> shift < -kHalfLimit || found.gradient.high >> shift > kHalfLimit) {
    return {};
  }
  const int64_t largest = std::max(found.direction.high, -found.direction.low);
  return {ldexp(Real(largest - kSketchError), sketch.exponent) - rest,
          ldexp(Real(largest + kSketchError), sketch.exponent) + rest};
}

}  // namespace mantissa::ops
