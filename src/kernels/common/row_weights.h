// Weights of rows in the sums that losses and their gradients are.
#pragma once

#include <cstdint>

#include "numerics/rounding.h"
#include "tensor/table_numbers.h"

namespace mantissa::kernels {

constexpr int kRowWeightBits = -kWeightExponent;

// A row counts as much as its weight, a whole number of 2^-10 from 0 to 31. A row whose label is
// below 0 does not count.
struct RowWeights {
  const int16_t* weights = nullptr;  // [rows]; null: each counts 1
  const int32_t* labels = nullptr;   // [rows]; null: all count

  // Bits after the point of factors.
  int bits() const { return weights == nullptr ? 0 : kRowWeightBits; }
  // By which the gradient of a row is multiplied.
  int64_t factor(int64_t row) const {
    if (labels != nullptr && labels[row] < 0) return 0;
    return weights == nullptr ? 1 : weights[row];
  }
  // A row's loss times its weight, to nearest even.
  int64_t weighted(int64_t loss, int64_t row) const {
    return divide_rne(__int128{loss} * factor(row), int64_t{1} << bits());
  }
};

}  // namespace mantissa::kernels
