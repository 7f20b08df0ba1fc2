// Linear layers on values whose rows have exponents of their own (blocks=token). Neither those nor
// the exponents of output channels vary along a sum of products: the sums are those of the kernels
// for bytes, and what follows shifts by row and channel.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Whether the input's rows have exponents of their own: by shapes, and of an instruction.
bool is_by_rows(const OpShapes& s);
bool is_by_rows(const OpContext& c);

PhaseMemory row_forward_memory(const OpShapes& s, const PlanningContext& planning);
Prepared prepare_row_forward(const OpContext& c);

// Exact sums in int32, or in int64 of inputs of more than 8 bits, some rows at a time. Channels are aligned to the one with the smallest
// exponent, at most kMostChannelSpread below the largest, the bias is rounded to the row's units,
// and each row is requantised to its own maximum.
void row_forward(const OpContext& c);

}  // namespace mantissa::ops
