// Real numbers of settings as whole numbers, before the first step.
#pragma once

#include <cstdint>

#include "reference/numerics/point_functions.h"

namespace mantissa {

// A number >= 0 as an exact fraction; denominator >= 1.
using Fraction = RefFraction;

// The fraction of a number from 0 to 2 with a denominator of at most `largest`: the last convergent
// of its continued fraction. If the number was written as such a fraction, this is the number
// itself.
Fraction nearest_fraction(double number, int64_t largest);

// number * units to the nearest whole number, ties to even.
int64_t nearest_whole(double number, int64_t units);

}  // namespace mantissa
