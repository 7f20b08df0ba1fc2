// Operators that move mantissas of 8 bits.
#pragma once

#include "reference/types.h"

// A part of a concatenation: to[row, c] = rne(from[row, c] >> shift), rows of `channels` inside
// rows of `out_channels`.
typedef struct DevPart {
  const int8_t* from;
  int32_t channels, shift, out_channels, rows;
  int8_t* to;  // of the first row
} DevPart;

// Zeros around an image [height, width, channels].
typedef struct DevPad {
  const int8_t* from;
  int32_t batch, height, width, channels;
  int32_t top, bottom, left, right;
  int8_t* to;
} DevPad;

REF_BEGIN

void dev_part(const DevPart*) REF_NOEXCEPT;
void dev_pad(const DevPad*) REF_NOEXCEPT;

REF_END
