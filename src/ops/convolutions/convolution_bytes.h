// The forward pass of convolution and linear if input, weights and result have up to 8 bits.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

RowMemory byte_forward_memory(const OpShapes& s, const PlanningContext& planning);

Prepared prepare_byte_forward(const OpContext& c);

// Exact sums in int32, narrowed to the output's width: at once by the kernel, if one shift is right
// for all and is known before, else in two passes. For logits, which are not narrowed, the sums as
// they are.
void byte_forward(const OpContext& c);

// The largest bias of sums, so that sums with it fit int32.
constexpr int64_t kBiasLimit = int64_t{1} << 30;

// The forward pass of rescaled layers: sums with their bias, narrowed by a float32 multiplier for
// each channel (kernels/rescale). Memory and preparation are the same as byte_forward's.
void rescaled_forward(const OpContext& c);

// The mantissas that a rescaled layer may give.
struct RescaledRange {
  int least, most;
};
RescaledRange rescaled_range(const OpContext& c);

// The largest mantissa of a ReLU6 with this exponent.
int largest_of_relu6(int exponent, int limit);

}  // namespace mantissa::ops
