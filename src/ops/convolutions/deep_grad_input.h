// grad_input of a linear layer with so many outputs that sums over them leave int32: the classifier
// of a language model. The same exact sums, in int64, from some outputs at a time.
#pragma once

#include "graph/op.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/statistics.h"

namespace mantissa::ops {

// Whether the layer is one. Convolutions, and weights of more than 8 bits, are none.
bool has_deep_grad_input(const OpShapes& s);
bool has_deep_grad_input(const OpContext& c);

RowMemory deep_grad_input_memory(const OpShapes& s, const PlanningContext& planning);
Prepared prepare_deep_grad_input(const OpContext& c);
// write_grad_input (grad_input.h) of such a layer.
kernels::WideStatistics write_deep_grad_input(const OpContext& c, int shift,
                                              const kernels::PassCounts& counts);

}  // namespace mantissa::ops
