// Sigmoids by a softmax that computes many rows at once. The sigmoid of z is the softmax of 0 and
// z: outputs become rows of two classes, block by block.
#pragma once

#include <cstdint>

#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "kernels/softmax/softmax.h"

namespace mantissa::kernels {

LossSums sigmoid_loss(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                      int64_t begin_row, int64_t end_row) noexcept;
WideStatistics sigmoid_gradient(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                                int shift, MantissaSpan grad, int64_t begin_row,
                                int64_t end_row) noexcept;
void sigmoid_probabilities(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                           int32_t* probabilities, int64_t begin_row, int64_t end_row) noexcept;

// Three functions of a row, by its softmax.
template <const SoftmaxKernels& kSoftmax>
struct SigmoidsBy {
  static LossSums loss(const SigmoidCrossEntropy& args, int64_t begin_row,
                       int64_t end_row) noexcept {
    return sigmoid_loss(kSoftmax, args, begin_row, end_row);
  }
  static WideStatistics gradient(const SigmoidCrossEntropy& args, int shift, MantissaSpan grad,
                                 int64_t begin_row, int64_t end_row) noexcept {
    return sigmoid_gradient(kSoftmax, args, shift, grad, begin_row, end_row);
  }
  static void probabilities(const SigmoidCrossEntropy& args, int32_t* out, int64_t begin_row,
                            int64_t end_row) noexcept {
    sigmoid_probabilities(kSoftmax, args, out, begin_row, end_row);
  }
};

}  // namespace mantissa::kernels
