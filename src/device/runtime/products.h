// Products in a frozen network: of two values, and of a value with a number for each channel.
#pragma once

#include "reference/types.h"

// out = a * b. With a gate, b has `period` numbers for each image of `image` elements of a.
typedef struct DevMultiply {
  const int8_t *a, *b;
  int8_t* out;
  int32_t count, image, period;  // period 0: b has an element for each of a
  int shift, limit;
} DevMultiply;

// out = in * multiplier + offset of the channel, or 0 with a ReLU if that is negative.
typedef struct DevScaleOffset {
  const int8_t* in;
  int8_t* out;
  int32_t count, channels;
  const int32_t* multipliers;
  const int64_t* offsets;  // below 2^45
  int shift, limit;
  bool relu;
} DevScaleOffset;

REF_BEGIN

void dev_multiply(const DevMultiply*) REF_NOEXCEPT;
void dev_scale_offset(const DevScaleOffset*) REF_NOEXCEPT;

REF_END
