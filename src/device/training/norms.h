// Batch norm in a training step. Source: METHODS sections 0.3, 0.8 and 4; the kernels' sums and
// results are those of reference/layers/batch_norm.h.
#pragma once

#include "device/training/program.h"

// Arrays are [channels].
typedef struct DevNorm {
  const DevTensor* in;
  const DevTensor* out;  // of the forward pass, also the mask of the ReLU
  bool relu;             // is part of the instruction
  const int16_t *scale, *scale_exponent;
  const int16_t *offset, *offset_exponent;
  // Doubles, as bits. Each micro-batch brings them nearer to its own.
  uint64_t *running_mean, *running_variance;
  // From the forward pass to the backward pass, [4 * channels]: mean and 1 / sigma as bits of
  // doubles; the sums of the gradient and of gradient times input.
  uint64_t* saved;
  void* work;  // [channels] of int64, then two times [channels] of int32
} DevNorm;

typedef struct DevNormPlace {
  DevKept scale, scale_exponent, offset, offset_exponent;
  DevKept running_mean, running_variance;
  int32_t saved;  // in the arena
  bool relu;
} DevNormPlace;

// A channel in the backward pass: its statistics, and the sums of the gradient and of gradient
// times input.
typedef struct DevNormSums {
  RefReal mean, inverse_sigma;
  int64_t grad, grad_in;
} DevNormSums;

// dx = A dy + D q + C of a channel.
typedef struct DevGradientAffine {
  RefReal grad, in, offset;
} DevGradientAffine;
typedef DevGradientAffine (*DevAffineOf)(const void* work, int32_t c);

// The same of all channels as integers with one exponent: arrays [channels].
typedef struct DevFixedGradient {
  int32_t *multiplier, *in_multiplier;
  int64_t* wide_offset;
} DevFixedGradient;

REF_BEGIN

// Adds the gradients of a channel's scale and offset to their sums; `exponent`: of dy.
void dev_add_norm_gradients(const DevNormSums*, int32_t c, int exponent, const DevSums* scale,
                            const DevSums* offset) REF_NOEXCEPT;
// `grad` is A; a channel has `rows` numbers.
DevGradientAffine dev_gradient_affine(const DevNormSums*, RefReal grad, int32_t rows) REF_NOEXCEPT;
// Returns the exponent. The step fails if a number is not finite.
int dev_fix_gradient(DevStep*, DevAffineOf of, const void* work, int32_t channels,
                     const DevFixedGradient*) REF_NOEXCEPT;

// `in`, `out`: null where they are not read. `work`: in the arena.
DevNorm dev_norm(const DevMemory*, const DevNormPlace*, const DevTensor* in, const DevTensor* out,
                 int32_t work) REF_NOEXCEPT;

// Also the running statistics: the engine updates them at the end of a step, but nothing reads them
// before, and so that no micro-batch's have to be kept.
void dev_norm_forward(DevStep*, const DevNorm*) REF_NOEXCEPT;
// The same again, from the statistics that are there, to the exponent of `out`.
void dev_norm_again(DevStep*, const DevNorm*) REF_NOEXCEPT;
// The same, rounded half up (device/operators/half_up.h).
void dev_norm_forward_half_up(DevStep*, const DevNorm*) REF_NOEXCEPT;
void dev_norm_again_half_up(DevStep*, const DevNorm*) REF_NOEXCEPT;
// Before a value is written: the batch's statistics, unless they are there, and each channel's
// offset and multiplier, the first two arrays of `work`. Returns the exponent of their results.
int dev_norm_affine(DevStep*, const DevNorm*, bool measures) REF_NOEXCEPT;
void dev_norm_grad_weights(const DevNorm*, const DevTensor* grad_out, const DevSums* scale,
                           const DevSums* offset) REF_NOEXCEPT;
void dev_norm_grad_input(DevStep*, const DevNorm*, const DevTensor* grad_out,
                         const DevTensor* grad_in) REF_NOEXCEPT;

REF_END
