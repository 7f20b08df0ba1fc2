// Weights of rows in the sums that losses and their gradients are.
#pragma once

#include <cstdint>

#include "reference/training/losses.h"
#include "tensor/table_numbers.h"

namespace mantissa::kernels {

constexpr int kRowWeightBits = -kWeightExponent;

// A row counts as much as its weight, a whole number of 2^-10 from 0 to 31. A row whose label is
// below 0 does not count.
using RowWeights = RefRowWeights;

}  // namespace mantissa::kernels
