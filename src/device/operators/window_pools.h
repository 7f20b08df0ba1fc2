// Pools of a training step whose windows may overlap, be padded and reach beyond the image
// (reference/layers/pooling.h).
#pragma once

#include "device/training/narrow.h"

// Windows along one axis of an image.
typedef struct DevAxis {
  int32_t size, windows;  // cells of the image, and windows over them
  int32_t window, stride, padding;
} DevAxis;

typedef struct DevWindows {
  DevAxis vertical, horizontal;
  int32_t channels;
} DevWindows;

// Means: sums of cells, or gradients, times 1 / cells of the window.
typedef struct DevMeans {
  DevWindows windows;
  bool counts_padding;
  int32_t least;               // the fewest cells of a window
  const int32_t* multipliers;  // of windows of `least` cells and more, one by one
  int exponent;                // of multipliers
} DevMeans;

REF_BEGIN

void dev_train_window_maxima(const DevWindows*, const DevTensor* in,
                             const DevTensor* out) REF_NOEXCEPT;
// A cell gets the sum of the gradients of the windows whose first maximum it is. `taps`: room for a
// byte of each output.
void dev_train_window_maxima_gradient(DevStep*, const DevWindows*, const DevTensor* in,
                                      const DevTensor* grad_out, int8_t* taps,
                                      const DevTensor* grad_in) REF_NOEXCEPT;
void dev_train_window_means(DevStep*, const DevMeans*, const DevTensor* in,
                            const DevTensor* out) REF_NOEXCEPT;
void dev_train_window_means_gradient(DevStep*, const DevMeans*, const DevTensor* grad_out,
                                     const DevTensor* grad_in) REF_NOEXCEPT;

REF_END
