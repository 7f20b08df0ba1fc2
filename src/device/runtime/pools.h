// Pools of images [height, width, channels]: maxima of windows that do not overlap, and means of a
// frozen network. Without memory on the stack that grows with the channels.
#pragma once

#include "reference/layers/pooling.h"

// out = clip(rne(sum * 2^-shift / cells), +-limit), rounded once: sums of the cells of a window
// inside the image. `cells` counts padded ones if counts_padding.
typedef struct DevAverage {
  RefPoolShape shape;
  const int8_t* in;
  int8_t* out;
  int32_t batch;
  bool counts_padding;
  int shift, limit;
} DevAverage;

// out = clip(rne(float32(float32(sum) * multiplier)), +-limit): sums of all pixels
// (reference/elements/rescale.h). The multiplier is the bits of a float32 number.
typedef struct DevImageAverage {
  const int8_t* in;
  int8_t* out;
  int32_t batch, pixels, channels;
  uint32_t multiplier;
  int limit;
} DevImageAverage;

REF_BEGIN

// As ref_max_pool; images [0, count).
void dev_max_pool(const RefMaxPoolShape*, const int8_t* in, int8_t* out,
                  int32_t count) REF_NOEXCEPT;
void dev_average(const DevAverage*) REF_NOEXCEPT;
void dev_image_average(const DevImageAverage*) REF_NOEXCEPT;

REF_END
