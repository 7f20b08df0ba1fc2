// Sigmoid and cross-entropy in integers, on wide logits that do not depend on one another. The
// sigmoid of z is the softmax of 0 and z: the rows of softmax compute it. Source: METHODS section
// 0.6.
#pragma once

#include <cstdint>

#include "kernels/common/mantissa_span.h"
#include "kernels/common/row_weights.h"
#include "kernels/common/statistics.h"
#include "kernels/softmax/softmax.h"

namespace mantissa::kernels {

// The target of each logit: 0, 1, or below 0 if it is not known.
struct SigmoidTargets {
  const int32_t* labels = nullptr;
  int64_t outputs = 1;
  // Labels are [rows, outputs], the targets themselves; else [rows], the only output that is 1, or
  // of one output its target.
  bool by_output = false;

  int32_t at(int64_t row, int64_t output) const {
    if (by_output) return labels[row * outputs + output];
    const int32_t label = labels[row];
    return outputs == 1 || label < 0 ? label : static_cast<int32_t>(label == output);
  }
};

// Logits are [rows, outputs] mantissas with one exponent. A logit whose target is not known counts
// nowhere; rows count as much as their weights say (row_weights.h).
struct SigmoidCrossEntropy {
  const int32_t* logits = nullptr;
  SigmoidTargets targets;
  int exponent = 0;
  const int16_t* weights = nullptr;  // [rows] in 2^-10; null: each row counts 1
  WideCounts* counts = nullptr;      // of the wide gradient, if it is counted

  int64_t outputs() const { return targets.outputs; }
  RowWeights row_weights() const { return {weights, targets.by_output ? nullptr : targets.labels}; }
};

// loss_q24: for each row the sum of -log2(probability of the target) over its outputs, in Q24 and
// at most 2^48, times the weight. A row is correct if any target is known, and each known target is
// 1 for a logit above 0, else 0.
LossSums sigmoid_loss(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                      int64_t begin_row, int64_t end_row) noexcept;

// grad = saturate(rne((probability - target) in Q30 * weight >> shift), +-(2^(bits-1) - 1)), as the
// gradient of softmax (softmax.h): of the *sum* of the rows' losses.
WideStatistics sigmoid_gradient(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                                int shift, MantissaSpan grad, int64_t begin_row,
                                int64_t end_row) noexcept;

// probabilities[row, output] of 1, in Q30.
void sigmoid_probabilities(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                           int32_t* probabilities, int64_t begin_row, int64_t end_row) noexcept;

}  // namespace mantissa::kernels
