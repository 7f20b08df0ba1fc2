// The search for the scale of least squared error (METHODS section 3, "Weights, MMSE").
#pragma once

#include "quantise/weights/part.h"

namespace mantissa::quantise {

// The smallest scale that clips nothing: the largest w / hi of w > 0, the largest w / lo of w < 0.
double uniform_scale(const Part& part);

// As described for MMSE at quantise_weights; for a part with numbers for its range.
double least_squares_scale(const Part& part, int scale_bits);

}  // namespace mantissa::quantise
