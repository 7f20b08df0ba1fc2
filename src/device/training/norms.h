// Batch norm in a training step. Source: METHODS sections 0.3, 0.8 and 4; the kernels' sums and
// results are those of reference/layers/batch_norm.h.
#pragma once

#include "device/training/layers.h"

// Arrays are [channels].
typedef struct DevNorm {
  const DevTensor* in;
  const DevTensor* out;  // of the forward pass, also the mask of the ReLU
  bool relu;             // is part of the instruction
  const int16_t *scale, *scale_exponent;
  const int16_t *offset, *offset_exponent;
  // From the forward pass to the backward pass: doubles, as bits; and sums.
  uint64_t *mean, *inverse_sigma;
  int64_t *sum_grad, *sum_grad_in;
  uint64_t* record;  // [2 * channels] per micro-batch: batch mean and variance; or null
  int32_t *multiplier, *in_multiplier;
  int64_t* wide_offset;
} DevNorm;

REF_BEGIN

void dev_norm_forward(DevStep*, const DevNorm*) REF_NOEXCEPT;
// The same again, from the statistics that are there, to the exponent of `out`.
void dev_norm_again(DevStep*, const DevNorm*) REF_NOEXCEPT;
void dev_norm_grad_weights(const DevNorm*, const DevTensor* grad_out, const DevSums* scale,
                           const DevSums* offset) REF_NOEXCEPT;
void dev_norm_grad_input(DevStep*, const DevNorm*, const DevTensor* grad_out,
                         const DevTensor* grad_in) REF_NOEXCEPT;
// Running mean and variance (doubles, as bits) approach those of each micro-batch.
void dev_norm_statistics(const DevStep*, const uint64_t* records, int32_t channels, uint64_t* mean,
                         uint64_t* variance) REF_NOEXCEPT;

REF_END
