// Products of two values in a training step, and of an image with a gate: a factor of each channel.
#pragma once

#include "device/training/narrow.h"

typedef struct DevFactors {
  int32_t image, period;  // elements of an image, and of its gate; period 0: there is no gate
} DevFactors;

REF_BEGIN

void dev_train_multiply(DevStep*, const DevFactors*, const DevTensor* a, const DevTensor* b,
                        const DevTensor* out) REF_NOEXCEPT;
// The gradient of one, as large as grad_out: times the other, which may be a gate.
void dev_train_multiply_gradient(DevStep*, const DevFactors*, const DevTensor* grad_out,
                                 const DevTensor* other, const DevTensor* grad_in) REF_NOEXCEPT;
// The gradient of a gate: sums over the pixels of each image.
void dev_train_gate_gradient(DevStep*, const DevFactors*, const DevTensor* grad_out,
                             const DevTensor* image, const DevTensor* grad_gate) REF_NOEXCEPT;

REF_END
