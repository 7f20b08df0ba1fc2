// Cross-entropy of sigmoids, of the forms that no kernel computes (docs/operators.md).
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "kernels/softmax/softmax.h"
#include "ops/attributes.h"

namespace mantissa::ops {

// inputs: logits [N, ..., outputs], labels int32 [N, ...] or as the logits, perhaps weights.
kernels::SigmoidTargets sigmoid_targets_of(const OpContext& c);

// The target of an output: 0, 1, or below 0 if it is not known.
int32_t sigmoid_target(const SigmoidLossAttributes& attributes,
                       const kernels::SigmoidTargets& targets, int64_t row, int64_t output);

void weighed_sigmoids(const OpContext& c);
void weighed_sigmoids_backward(const OpContext& c);

}  // namespace mantissa::ops
