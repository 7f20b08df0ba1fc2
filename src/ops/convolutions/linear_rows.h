// Linear layers on values whose rows have exponents of their own (blocks=token). Neither these
// exponents nor those of output channels vary along a sum of products. So the sums come from the
// kernels for bytes, and later steps shift by row and channel.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Whether the input's rows have exponents of their own: by shapes, and for an instruction.
bool is_by_rows(const OpShapes& s);
bool is_by_rows(const OpContext& c);

// Replaces the memory for inputs with one exponent in `memory`.
void plan_rows(const OpShapes& s, const PlanningContext& planning, OpMemory& memory);
Prepared prepare_row_forward(const OpContext& c);
Prepared prepare_row_backward_weights(const OpContext& c);

// Exact sums in int32, or in int64 for inputs of more than 8 bits, some rows at a time. Channels
// are aligned to the one with the smallest exponent, at most kMostChannelSpread below the largest.
// The bias is rounded to the row's units, and each row is requantised to its own maximum. For
// logits, which are not narrowed, a row's sums get int32 and the exponent at which neither they nor
// the bias can leave 30 bits: narrowed once, to nearest even.
void row_forward(const OpContext& c);

// The gradient of the weights is a sum over rows. In the workspace these are brought to one
// exponent with 16 bits, 8 below the largest row's exponent. The sums are exact from there on.
void row_backward_weights(const OpContext& c);

}  // namespace mantissa::ops
