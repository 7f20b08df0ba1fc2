// Convolution and linear where the input, the weights or the result have more than 8 bits.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Whether the forward pass, or a gradient, is one for the functions below.
bool is_wide_forward(const OpContext& c);
bool is_wide_grad_input(const OpContext& c);
bool is_wide_grad_weights(const OpContext& c);

// The same by shapes; what they need is added to `memory` in place of what 8 bits need.
void plan_wide_convolution(const OpShapes& s, const PlanningContext& planning, OpMemory& memory);

// Exact sums in int64, a few images at a time, narrowed to the output's width. Without a result to
// narrow (logits): the sums in int32, in units of 2^(bits of input and weights above 8 each).
void wide_forward(const OpContext& c);

void wide_backward_input(const OpContext& c);

// Of the weights; the bias is as ever.
void wide_backward_weights(const OpContext& c);

}  // namespace mantissa::ops
