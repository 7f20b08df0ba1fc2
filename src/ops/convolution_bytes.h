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

}  // namespace mantissa::ops
