// Errors of numbers with the penalties that no kernel computes (docs/operators.md).
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// inputs: results int32 [N, outputs], targets int16 [N, outputs], perhaps weights.
void penalty_loss(const OpContext& c);
void penalty_backward(const OpContext& c);

}  // namespace mantissa::ops
