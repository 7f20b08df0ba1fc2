// The integer arithmetic of batch norm, the same in training and in the frozen network.
#pragma once

#include "graph/op.h"
#include "kernels/bit_counts/wide_counts.h"

namespace mantissa::ops {

// The output = narrow(relu?(input * multiplier[c] + offset[c]) >> shift) for each channel c,
// rounded to nearest even; returns how many were clipped. wide_exponent is the exponent of the
// result before the shift; under kCalibrate wide values are counted. |multiplier| < 2^31 (2^29 for
// inputs of 16 bits), |offset| <= 2^44. Counts what the pass counts.
// `negative_shift`: in place of ReLU, as in kernels::ScaleOffset.
int64_t scale_and_offset(const OpContext& context, const int32_t* multiplier, const int64_t* offset,
                         int shift, int wide_exponent, const kernels::PassCounts& counts = {},
                         const int32_t* negative_shift = nullptr);

}  // namespace mantissa::ops
