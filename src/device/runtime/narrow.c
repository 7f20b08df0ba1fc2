#include "device/runtime/narrow.h"

#include "reference/elements/elements.h"
#include "reference/elements/rescale.h"

static int8_t clipped(int32_t n, int least, int most) {
  return (int8_t)(n < least ? least : n > most ? most : n);
}

// rne(n * 2^-shift) for shifts >= 0. Halves first become larger; on a tie the even one is smaller.
static int32_t rounded(int32_t n, int shift) {
  if (shift > 31) return 0;  // |n| < 2^31: at most half a unit
  if (shift == 0) return n;
  const int32_t halves = n >> (shift - 1), up = (halves >> 1) + (halves & 1);
  const bool is_tie = (uint32_t)n << (32 - shift) == UINT32_C(1) << 31;
  return is_tie ? up & ~1 : up;
}

static int8_t narrowed(int32_t n, int shift, int least, int most) {
  if (shift < 0) return (int8_t)ref_clamp(ref_rescale_rne(n, shift), least, most);
  return clipped(rounded(n, shift), least, most);
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

void dev_take_floored(void* work, const int32_t* sums, int32_t pixel) {
  const DevNarrow args = *(const DevNarrow*)work;  // a copy: `out` may be anything
  int8_t* out = args.out + pixel * args.channels;
  for (int32_t c = 0; c < args.channels; ++c) {
    out[c] = clipped(sums[c] >> args.shifts[c], args.least, args.most);
  }
}

// The rounded product of a sum and a positive float32 number, where that is sure: false near ties.
// The product is exact, in units of 2^-(32 + shift). The two roundings to float32 change products
// below 256 by less than 2^-15, which is `near`; from 255 on results are clipped.
static bool is_sure(int32_t sum, uint32_t number, int32_t* rounded_product) {
  const int shift = 125 - (int)(number >> 23);
  if (shift < 1 || shift > 13) return false;
  const int32_t size = (int32_t)((number << 7 & 0x3fffffff) | 0x40000000);
  const int64_t product = (int64_t)sum * size;
  *rounded_product = (((int32_t)(product >> 32) >> (shift - 1)) + 1) >> 1;
  const uint32_t unit = UINT32_C(1) << shift, near = UINT32_C(1) << (17 + shift);
  const uint64_t from_tie = (uint64_t)product + ((uint64_t)(unit / 2) << 32 | near);
  return ((uint32_t)(from_tie >> 32) & (unit - 1)) != 0 || (uint32_t)from_tie > 2 * near;
}

void dev_take_rescaled(void* work, const int32_t* sums, int32_t pixel) {
  const DevRescale* args = (const DevRescale*)work;
  int8_t* out = args->out + pixel * args->channels;
  const RefRescale exact = {sums,           (const float*)(const void*)args->multipliers,
                            args->channels, out,
                            args->least,    args->most};
  for (int32_t c = 0; c < args->channels; ++c) {
    int32_t product;
    if (is_sure(sums[c], args->multipliers[c], &product)) {
      out[c] = clipped(product, args->least, args->most);
    } else {
      (void)ref_rescale_element(&exact, c, c);
    }
  }
}

void dev_take_left(void* work, const int32_t* sums, int32_t pixel) {
  const DevLeave* args = (const DevLeave*)work;
  int32_t* out = args->out + pixel * args->channels;
  for (int32_t c = 0; c < args->channels; ++c) {
    out[c] = args->shifts == NULL ? sums[c] : rounded(sums[c], args->shifts[c]);
  }
}
