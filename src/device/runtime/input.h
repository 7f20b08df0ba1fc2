// Inputs become mantissas of 8 bits, at an exponent that is fixed.
#pragma once

#include "reference/types.h"

// out = clip(rne((pixel * 2^fraction - mean[channel]) >> shift), +-limit); pixels [count,
// channels].
typedef struct DevPixels {
  const uint8_t* pixels;
  const int32_t* means;  // [channels], in units of 2^-fraction
  int8_t* out;
  int32_t count, channels;
  int fraction, shift, limit;
  bool half_up;
} DevPixels;

// out = clip(rne(number >> shift), +-limit).
typedef struct DevNumbers {
  const int16_t* numbers;
  int8_t* out;
  int32_t count;
  int shift, limit;
} DevNumbers;

REF_BEGIN

void dev_pixels(const DevPixels*) REF_NOEXCEPT;
void dev_numbers(const DevNumbers*) REF_NOEXCEPT;

REF_END
