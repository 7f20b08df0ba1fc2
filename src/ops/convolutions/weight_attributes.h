// The grid of weights that a layer's attributes name.
#pragma once

#include "graph/attributes.h"
#include "numerics/weight_grid.h"

namespace mantissa::ops {

inline WeightGrid weight_grid(const Attributes& attributes) {
  const auto bits = static_cast<int>(attributes.whole("weight_bits"));
  if (bits == 0) return {};
  return {.bits = bits,
          .is_full = attributes.text("weight_range") == "full",
          .stops = attributes.is_set("weight_stops")};
}

}  // namespace mantissa::ops
