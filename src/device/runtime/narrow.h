// Sums of a frozen layer become mantissas, as soon as a pixel has them.
#pragma once

#include "reference/types.h"

// out = clip(rne(sum >> shift), least, most), out being [pixels, channels].
typedef struct DevNarrow {
  int8_t* out;
  int32_t channels;
  int shift;  // left if it is negative
  int least, most;
  const int32_t* shifts;  // one for each channel, in [0, 31]; dev_take_shifted reads none
} DevNarrow;

// out = clip(rne(float32(float32(sum) * multiplier))), as IEEE 754 rounds, by integers
// (reference/elements/rescale.h). Multipliers are the bits of float32 numbers.
typedef struct DevRescale {
  int8_t* out;
  int32_t channels;
  const uint32_t* multipliers;
  int least, most;
} DevRescale;

// Sums that stay wide: logits. If channels have exponents of their own: out = rne(sum >> shift).
typedef struct DevLeave {
  int32_t* out;
  int32_t channels;
  const int32_t* shifts;  // [channels], in [0, 31]; or null
} DevLeave;

REF_BEGIN

// A DevTake; `work` is the structure above.
void dev_take_shifted(void* work, const int32_t* sums, int32_t pixel) REF_NOEXCEPT;
void dev_take_shifted_channels(void* work, const int32_t* sums, int32_t pixel) REF_NOEXCEPT;
// out = clip(floor(sum / 2^shift), least, most), of sums that have half a unit in their bias.
void dev_take_floored(void* work, const int32_t* sums, int32_t pixel) REF_NOEXCEPT;
void dev_take_rescaled(void* work, const int32_t* sums, int32_t pixel) REF_NOEXCEPT;
void dev_take_left(void* work, const int32_t* sums, int32_t pixel) REF_NOEXCEPT;

REF_END
