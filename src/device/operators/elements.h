// Inputs, element-wise operators and pools of a training step. Functions `_half_up` round as
// formats with ties=up do.
#pragma once

#include "device/runtime/pools.h"
#include "device/training/narrow.h"

// pixel - mean of the channel, in units of 2^exponent.
typedef struct DevTrainingPixels {
  const uint8_t* pixels;
  const int32_t* means;  // in units of 2^-fraction
  int fraction, exponent;
} DevTrainingPixels;

// Whole images [images, pixels, channels].
typedef struct DevImages {
  const DevTensor *from, *to;
  int32_t pixels;
} DevImages;

// Dropout: elements are kept by the random bits of a key.
typedef struct DevDropout {
  const DevTensor* in;  // or the gradient of the output
  uint32_t node;        // part of the key
  uint32_t dropped;     // the probability times 2^16
  int64_t scale;        // 1 / (1 - probability) in units of 2^-30
} DevDropout;

REF_BEGIN

void dev_train_dropout(DevStep*, const DevDropout*, const DevTensor* out) REF_NOEXCEPT;
void dev_train_dropout_gradient(DevStep*, const DevDropout*, const DevTensor* grad_in) REF_NOEXCEPT;
void dev_train_pixels(DevStep*, const DevTrainingPixels*, const DevTensor* out) REF_NOEXCEPT;
void dev_train_pixels_half_up(DevStep*, const DevTrainingPixels*,
                              const DevTensor* out) REF_NOEXCEPT;
void dev_train_numbers(DevStep*, const int16_t* numbers, int exponent,
                       const DevTensor* out) REF_NOEXCEPT;
void dev_train_relu(const DevTensor* in, const DevTensor* out) REF_NOEXCEPT;
// grad_in = out > 0 ? grad_out : 0; without `out` a copy.
void dev_train_masked(const DevTensor* out, const DevTensor* grad_out,
                      const DevTensor* grad_in) REF_NOEXCEPT;
void dev_train_add(DevStep*, const DevTensor* a, const DevTensor* b, bool relu,
                   const DevTensor* out) REF_NOEXCEPT;
void dev_train_add_half_up(DevStep*, const DevTensor* a, const DevTensor* b, bool relu,
                           const DevTensor* out) REF_NOEXCEPT;
// The sum of two gradients of one value.
void dev_train_sum(DevStep*, const DevTensor* a, const DevTensor* b,
                   const DevTensor* sum) REF_NOEXCEPT;
// A gradient in fewer bits, at its exact exponent.
void dev_train_round(DevStep*, const DevTensor* wide, const DevTensor* out) REF_NOEXCEPT;
void dev_train_round_at_random(DevStep*, const DevTensor* wide, uint32_t key,
                               const DevTensor* out) REF_NOEXCEPT;
void dev_train_max_pool(const RefMaxPoolShape*, const DevTensor* in, const DevTensor* out,
                        int32_t images) REF_NOEXCEPT;
void dev_train_max_pool_gradient(const RefMaxPoolShape*, const DevTensor* in,
                                 const DevTensor* grad_out, const DevTensor* grad_in,
                                 int32_t images) REF_NOEXCEPT;
void dev_train_image_average(DevStep*, const DevImages*) REF_NOEXCEPT;
void dev_train_image_average_half_up(DevStep*, const DevImages*) REF_NOEXCEPT;
void dev_train_image_average_gradient(DevStep*, const DevImages*) REF_NOEXCEPT;

REF_END
