// Batch norm in a training step whose backward pass inverts its output, so that the input need not
// be kept. Source: Recompute [0013]; METHODS section 4, B; src/ops/norms/batch_norm_inverted.cpp.
//
// Behind it comes a ReLU of its own: the output is written before it. Negative values count 2^n
// times, n of each micro-batch.
#pragma once

#include "device/training/norms.h"

typedef struct DevInversion {
  const DevNorm* norm;  // backward without its input; `relu`: the next instruction has one
  bool odd;             // rounded half up
  int32_t room;         // channels whose inputs are kept, at most
} DevInversion;

REF_BEGIN

void dev_inverted_forward(DevStep*, const DevInversion*) REF_NOEXCEPT;
void dev_inverted_again(DevStep*, const DevInversion*) REF_NOEXCEPT;
void dev_inverted_grad_weights(const DevInversion*, const DevTensor* grad_out, const DevSums* scale,
                               const DevSums* offset) REF_NOEXCEPT;
void dev_inverted_grad_input(DevStep*, const DevInversion*, const DevTensor* grad_out,
                             const DevTensor* grad_in) REF_NOEXCEPT;

REF_END
