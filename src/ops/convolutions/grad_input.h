// The gradient of a layer's input, for a caller that decides on its exponent.
#pragma once

#include "graph/op.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/statistics.h"

namespace mantissa::ops {

// Exponent of the exact sums of c.grad_output()'s products with the weights.
int wide_grad_input_exponent(const OpContext& c);

// Writes c.grad_inputs[0], the sums narrowed by a shift, and returns the statistics of the sums.
kernels::WideStatistics write_grad_input(const OpContext& c, int shift,
                                         const kernels::PassCounts& counts);

}  // namespace mantissa::ops
