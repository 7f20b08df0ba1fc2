// Softmax and cross-entropy in integers, on wide logits. Source: METHODS section 0.6.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/gradient.h"
#include "kernels/statistics.h"

namespace mantissa::kernels {

constexpr int64_t kMaximumClasses = 4096;

// Logits are [rows, classes] mantissas with one exponent; labels are < classes.
struct SoftmaxCrossEntropy {
  const int32_t* logits = nullptr;
  const uint8_t* labels = nullptr;
  int exponent = 0;
  int64_t classes = 1;
};

// Sums over examples.
struct LossSums {
  int64_t loss_q24 = 0;  // of -log2(probability of the label), in Q24
  int64_t correct = 0;   // the label has the largest logit (the first of equals)
};

struct SoftmaxKernels {
  const char* name;
  Isa isa;
  LossSums (*loss)(const SoftmaxCrossEntropy&, int64_t begin_row, int64_t end_row) noexcept;
  // grad = saturate(rne((probability - [class = label]) in Q30 >> shift), +-(2^(bits-1) - 1)): the
  // gradient of the *sum* of the examples' losses; wide exponent -30. Every width is rounded from
  // the same Q30 numbers, once; shift >= 0.
  WideStatistics (*gradient)(const SoftmaxCrossEntropy&, int shift, Gradient grad,
                             int64_t begin_row, int64_t end_row) noexcept;
  // probabilities[row, class] in Q30.
  void (*probabilities)(const SoftmaxCrossEntropy&, int32_t* probabilities, int64_t begin_row,
                        int64_t end_row) noexcept;
};

// Exponent of the wide gradient.
constexpr int kSoftmaxGradientExponent = -30;

extern const SoftmaxKernels kSoftmaxReference;

}  // namespace mantissa::kernels
