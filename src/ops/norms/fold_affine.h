// Batch norm or rescale of a frozen network as a multiplier and a bias for the sums of the layer
// before it.
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "numerics/real.h"

namespace mantissa::ops {

// The layer's channel: the unit of its sums is 2^sum_exponent, its bias in real units.
struct LayerChannel {
  int64_t channel = 0;
  int sum_exponent = 0;
  Real bias;
};

// out = rne(float32(sum + bias) * multiplier), in units of 2^(exponent of the output).
struct RescaledChannel {
  float multiplier = 0;
  int32_t bias = 0;
  // The sum has no influence: the scale is zero, or so small that the bias would not fit. Weights
  // must be zero.
  bool is_constant = false;
};

// Folds an op that frozen_affine takes; the context has its parameters and no training mode. The
// multiplier is the nearest float32; the bias is the nearest integer for that multiplier.
RescaledChannel fold_affine(const OpContext& context, const LayerChannel& layer,
                            int output_exponent);

}  // namespace mantissa::ops
