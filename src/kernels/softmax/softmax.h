// Softmax, or sigmoids, and cross-entropy in integers, on wide logits. Source: METHODS section 0.6.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/row_weights.h"
#include "kernels/common/statistics.h"

namespace mantissa::kernels {

constexpr int64_t kMaximumClasses = 65536;  // sums of powers stay below 2^46

using SoftmaxCrossEntropy = RefSoftmaxCrossEntropy;
using SigmoidTargets = RefSigmoidTargets;
using SigmoidCrossEntropy = RefSigmoidCrossEntropy;

struct SoftmaxKernels {
  const char* name;
  Features needs;
  // loss_q24: -sum of target * log2(probability) over the classes, in Q24, times the weight.
  LossSums (*loss)(const SoftmaxCrossEntropy&, int64_t begin_row, int64_t end_row) noexcept;
  // grad = saturate(rne((probability - target) in Q30 * weight >> shift), +-(2^(bits-1) - 1)): the
  // gradient of the *sum* of the examples' losses; wide exponent -30, or -40 if there are weights.
  // Every width is rounded from the same wide numbers, once; shift >= 0.
  WideStatistics (*gradient)(const SoftmaxCrossEntropy&, int shift, MantissaSpan grad,
                             int64_t begin_row, int64_t end_row) noexcept;
  // probabilities[row, class] in Q30.
  void (*probabilities)(const SoftmaxCrossEntropy&, int32_t* probabilities, int64_t begin_row,
                        int64_t end_row) noexcept;
  // The same of logits that do not depend on one another (reference/training/losses.h).
  LossSums (*sigmoid_loss)(const SigmoidCrossEntropy&, int64_t begin_row, int64_t end_row) noexcept;
  WideStatistics (*sigmoid_gradient)(const SigmoidCrossEntropy&, int shift, MantissaSpan grad,
                                     int64_t begin_row, int64_t end_row) noexcept;
  void (*sigmoid_probabilities)(const SigmoidCrossEntropy&, int32_t* probabilities,
                                int64_t begin_row, int64_t end_row) noexcept;
};

// Exponent of the wide gradient without weights.
constexpr int kSoftmaxGradientExponent = -30;

extern const SoftmaxKernels kSoftmaxReference;
#if defined(__x86_64__)
extern const SoftmaxKernels kSoftmaxAvx2;
extern const SoftmaxKernels kSoftmaxAvx512Vnni;
#endif

}  // namespace mantissa::kernels
