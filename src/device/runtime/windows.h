// The taps of a convolution's window that lie inside the image.
#pragma once

#include "device/runtime/convolution.h"

typedef struct DevRange {
  int32_t begin, end;
} DevRange;

// The taps inside [0, size), among `taps` of them, `step` apart, from `first` on.
static inline DevRange dev_inside(int32_t first, int32_t taps, int32_t step, int32_t size) {
  DevRange range = {0, taps};
  while (range.begin < taps && first + range.begin * step < 0) ++range.begin;
  while (range.end > range.begin && first + (range.end - 1) * step >= size) --range.end;
  return range;
}

// An output pixel's window.
typedef struct DevWindow {
  int32_t top, left;  // of its first tap, perhaps outside
  DevRange rows, columns;
} DevWindow;

static inline DevWindow dev_window(const DevConvolution* s, int32_t y, int32_t x) {
  const int32_t top = y * s->stride_height - s->padding_height;
  const int32_t left = x * s->stride_width - s->padding_width;
  const DevWindow window = {top, left, dev_inside(top, s->kernel_height, s->dilation, s->in_height),
                            dev_inside(left, s->kernel_width, s->dilation, s->in_width)};
  return window;
}
