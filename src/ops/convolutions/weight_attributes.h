// The grid of weights that a layer's attributes name.
#pragma once

#include "numerics/weight_grid.h"
#include "ops/attributes.h"

namespace mantissa::ops {

inline WeightGrid weight_grid(const LayerAttributes& attributes) {
  const int bits = attributes.weight_bits;
  if (bits == 0) return {};
  return {.bits = bits,
          .is_full = attributes.weight_range == WeightRange::kFull,
          .stops = attributes.weight_stops};
}

}  // namespace mantissa::ops
