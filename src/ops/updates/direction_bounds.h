// Bounds of the largest |direction| of a parameter, found in the pass that measures its gradient.
// If they are close, they decide the direction's exponent, and `wide` need not be computed for it.
// They change no bit.
#pragma once

#include <cstdint>

#include "kernels/update/update.h"
#include "numerics/real.h"

namespace mantissa::ops {

// As values. New bounds say nothing.
struct DirectionBounds {
  Real least, most;
};

// The same in units of 2^wide_exponent, as bounds of |wide|: its multipliers and g are rounded.
// least <= 0 says nothing.
struct WideBounds {
  int64_t least = 0, most = 0;
};
WideBounds in_wide_units(const DirectionBounds& bounds, int wide_exponent);

// A sketch whose values are in units of 2^exponent.
struct ScaledSketch {
  kernels::DirectionSketch sketch;
  int exponent = 0;
};
// The sketch of a direction. A unit of G, of `sum_bits` bits, and a unit of the velocity count this
// much (finite, and not less than 0). |G| is expected to have `gradient_bits` bits, or up to one
// more.
ScaledSketch sketch_direction(const Real& gradient_unit, const Real& velocity_unit,
                              const int16_t* velocity, int gradient_bits, int sum_bits);

// Bounds from the extremes of a sketch, if the rest of the direction is at most `rest`.
DirectionBounds bounds_of(const ScaledSketch& sketch, const kernels::SketchExtremes& found,
                          const Real& rest);

}  // namespace mantissa::ops
