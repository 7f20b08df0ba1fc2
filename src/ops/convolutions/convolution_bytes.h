// The forward pass of convolution and linear where input, weights and result have up to 8 bits.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

PhaseMemory byte_forward_memory(const OpShapes& s, const PlanningContext& planning);

Prepared prepare_byte_forward(const OpContext& c);

// Exact sums in int32, narrowed to the output's width: as the kernel computes them where one shift
// is right for all and can be known before, else in two passes. Without a result to narrow (logits)
// the sums as they are.
void byte_forward(const OpContext& c);

// Biases of sums are at most this, so that sums with them fit int32.
constexpr int64_t kBiasLimit = int64_t{1} << 30;

// The forward pass of rescaled layers: sums with their bias, narrowed by a float32 multiplier for
// each channel (kernels/rescale). Memory and preparation are the same as byte_forward's.
void rescaled_forward(const OpContext& c);

// The largest mantissa of a ReLU6 that has this exponent.
int largest_of_relu6(int exponent, int limit);

}  // namespace mantissa::ops
