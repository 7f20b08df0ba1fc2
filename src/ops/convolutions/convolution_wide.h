// Convolution and linear if the input, the weights or the result have more than 8 bits.
#pragma once

#include "graph/op.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/statistics.h"

namespace mantissa::ops {

// Whether the forward pass, or a gradient, is for the functions below.
bool is_wide_forward(const OpContext& c);
bool is_wide_grad_input(const OpContext& c);
bool is_wide_grad_weights(const OpContext& c);

// The same by shapes; their memory replaces the memory for 8 bits in `memory`.
void plan_wide_convolution(const OpShapes& s, const PlanningContext& planning, OpMemory& memory);

Prepared prepare_wide_forward(const OpContext& c);
Prepared prepare_wide_grad_input(const OpContext& c);
Prepared prepare_wide_grad_weights(const OpContext& c, int input_bits);

// Exact sums in int64, a few images at a time, narrowed to the output's width. For logits, which
// are not narrowed: the sums in int32, in units of 2^(bits of input and weights above 8 each).
void wide_forward(const OpContext& c);

// Writes the gradient of the input, narrowed by a shift.
kernels::WideStatistics write_wide_grad_input(const OpContext& c, int shift,
                                              const kernels::PassCounts& counts);

// The gradient of the weights; the gradient of the bias is computed as for 8 bits.
// From an input with one exponent.
void wide_backward_weights(const OpContext& c, const Tensor& input);

}  // namespace mantissa::ops
