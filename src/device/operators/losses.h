// Losses of a training step, on wide logits (reference/training/losses.h).
#pragma once

#include "device/training/narrow.h"
#include "reference/training/losses.h"

typedef struct DevSoftmax {
  const DevTensor* logits;  // int32
  const int32_t* labels;
  const int16_t* weights;  // of rows; or null
  int64_t smoothing;
} DevSoftmax;

typedef struct DevSquares {
  const DevTensor* logits;
  const int32_t* labels;  // or targets
  const int16_t* targets;
  int target_exponent;
  const int16_t* weights;
} DevSquares;

REF_BEGIN

void dev_softmax_loss(DevStep*, const DevSoftmax*) REF_NOEXCEPT;
void dev_softmax_gradient(DevStep*, const DevSoftmax*, const DevTensor* grad) REF_NOEXCEPT;
void dev_squares_loss(DevStep*, const DevSquares*) REF_NOEXCEPT;
void dev_squares_gradient(DevStep*, const DevSquares*, const DevTensor* grad) REF_NOEXCEPT;

REF_END
