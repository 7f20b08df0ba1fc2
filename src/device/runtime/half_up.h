// Operators of the tie-free form of frozen networks.
#pragma once

#include "reference/types.h"

// out = clip(floor((a * 2^left_a + b * 2^left_b) / 2^shift + 1/2), least, most); shifts are 0
// to 40.
typedef struct DevAddHalfUp {
  const int8_t *a, *b;
  int8_t* out;
  int32_t count;
  int left_a, left_b, shift;
  int least, most;
} DevAddHalfUp;

REF_BEGIN

void dev_add_half_up(const DevAddHalfUp*) REF_NOEXCEPT;
// out = in.
void dev_widen(const int8_t* in, int32_t* out, int32_t count) REF_NOEXCEPT;

REF_END
