// The instructions of attention's backward pass (attention.cpp).
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Writes the gradients of queries, keys and values: those that attention_backward_bias left in the
// workspace, if it ran before.
void attention_backward(const OpContext& c);

// The gradients of the bias: exact sums over all queries, times the root that scores were divided
// by, in 15 bits, rounded once. Leaves the gradients of the inputs in the workspace.
void attention_backward_bias(const OpContext& c);

}  // namespace mantissa::ops
