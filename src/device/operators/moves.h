// Paddings and concatenations of a training step, which move mantissas.
#pragma once

#include "device/training/narrow.h"

// An image [in_height, in_width] within a larger one of zeros.
typedef struct DevPadding {
  int32_t in_height, in_width, out_height, out_width, top, left;
} DevPadding;

REF_BEGIN

void dev_train_pad(const DevPadding*, const DevTensor* in, const DevTensor* out) REF_NOEXCEPT;
void dev_train_pad_gradient(const DevPadding*, const DevTensor* grad_out,
                            const DevTensor* grad_in) REF_NOEXCEPT;
// Concatenation: sets the largest of some exponents, so that nothing is clipped; and writes a part,
// from a channel of the whole on.
void dev_train_largest(const int16_t* exponents, const int16_t* which, int32_t count,
                       const DevTensor* whole) REF_NOEXCEPT;
void dev_train_part(const DevTensor* part, const DevTensor* whole, int32_t first) REF_NOEXCEPT;
// The gradient of a part.
void dev_train_slice(const DevTensor* whole, int32_t first, const DevTensor* part) REF_NOEXCEPT;

REF_END
