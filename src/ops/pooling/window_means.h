// Means of windows as products: 1 / cells as integers of one exponent.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/pooling/pooling.h"
#include "numerics/real.h"
#include "numerics/rounding.h"
#include "ops/pooling/reciprocal.h"

namespace mantissa::ops {

// Cells that the mean of window (wy, wx) is over.
inline int64_t cells_of(const kernels::PoolShape& s, bool padded, int64_t wy, int64_t wx) {
  const auto along = [&](const kernels::PoolAxis& axis, int64_t index, int64_t size) {
    const int64_t first = axis.first(index);
    return padded ? std::min(first + axis.window, size + axis.padding) - first
                  : axis.inside(index, size).size();
  };
  return along(s.vertical, wy, s.in_height) * along(s.horizontal, wx, s.in_width);
}

// The fewest cells of any window.
inline int64_t least_cells(const kernels::PoolShape& s, bool padded) {
  int64_t least = s.window_cells();
  for (int64_t wy = 0; wy < s.out_height; ++wy) {
    for (int64_t wx = 0; wx < s.out_width; ++wx) {
      least = std::min(least, cells_of(s, padded, wy, wx));
    }
  }
  return least;
}

// Multipliers of at most `bits` bits, by the cells of a window: from `least` to `most`.
struct Reciprocals {
  int exponent;
  std::array<int64_t, kernels::kLargestPoolWindow * kernels::kLargestPoolWindow + 1> of{};

  Reciprocals(int64_t least, int64_t most, int bits)
      : exponent(-fixed_point_shift(Real(1) / Real(least), bits)) {
    for (int64_t count = least; count <= most; ++count) {
      of[count] = to_fixed_point(Real(1) / Real(count), -exponent, mantissa_limit(bits + 1));
    }
  }
};

// Bits of multipliers of gradients: few enough that the sum of the products of all windows over a
// cell stays below 2^61.
inline int gradient_multiplier_bits(const kernels::PoolShape& s, int gradient_bits) {
  const auto along = [](const kernels::PoolAxis& axis) {
    return (axis.window + axis.stride - 1) / axis.stride;
  };
  const int windows = bit_length(magnitude(along(s.vertical) * along(s.horizontal) - 1));
  return std::min(kMeanBits, 62 - gradient_bits - windows);
}

}  // namespace mantissa::ops
