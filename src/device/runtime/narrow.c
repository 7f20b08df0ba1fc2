#include "device/runtime/narrow.h"

#include "reference/elements/elements.h"
#include "reference/elements/rescale.h"

// rne(n * 2^-shift) for shifts >= 0. In 32 bits: the quotient's floor and its rest decide.
static int32_t rounded(int32_t n, int shift) {
  if (shift > 31) return 0;  // |n| < 2^31: at most half a unit
  if (shift == 0) return n;
  const uint32_t rest = (uint32_t)n & ((1u << shift) - 1), half = 1u << (shift - 1);
  const int32_t quotient = n >> shift;
  return quotient + (rest > half || (rest == half && (quotient & 1) != 0) ? 1 : 0);
}

static int8_t narrowed(int32_t n, int shift, int least, int most) {
  if (shift < 0) return (int8_t)ref_clamp(ref_rescale_rne(n, shift), least, most);
  const int32_t quotient = rounded(n, shift);
  return (int8_t)(quotient < least ? least : quotient > most ? most : quotient);
}

void dev_take_shifted(void* work, const int32_t* sums, int32_t pixel) {
  const DevNarrow* args = (const DevNarrow*)work;
  int8_t* out = args->out + pixel * args->channels;
  for (int32_t c = 0; c < args->channels; ++c) {
    out[c] = narrowed(sums[c], args->shift, args->least, args->most);
  }
}

void dev_take_shifted_channels(void* work, const int32_t* sums, int32_t pixel) {
  const DevNarrow* args = (const DevNarrow*)work;
  int8_t* out = args->out + pixel * args->channels;
  for (int32_t c = 0; c < args->channels; ++c) {
    out[c] = narrowed(sums[c], args->shifts[c], args->least, args->most);
  }
}

void dev_take_rescaled(void* work, const int32_t* sums, int32_t pixel) {
  const DevRescale* args = (const DevRescale*)work;
  const RefRescale all = {sums,           (const float*)(const void*)args->multipliers,
                          args->channels, args->out + pixel * args->channels,
                          args->least,    args->most};
  (void)ref_rescale_rows(&all, 0, 1);
}

void dev_take_left(void* work, const int32_t* sums, int32_t pixel) {
  const DevLeave* args = (const DevLeave*)work;
  int32_t* out = args->out + pixel * args->channels;
  for (int32_t c = 0; c < args->channels; ++c) {
    out[c] = args->shifts == NULL ? sums[c] : rounded(sums[c], args->shifts[c]);
  }
}
