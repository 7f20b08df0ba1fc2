#include "reference/elements/rescale.h"

#include "reference/numerics/numerics.h"

enum { kFloatBits = 24 };  // of a float32 number's mantissa

// The bits of a number, byte by byte: nothing here computes with it.
static uint32_t bits_of(const float* number) {
  const unsigned char* bytes = (const unsigned char*)number;
  uint32_t bits = 0;
  unsigned char* to = (unsigned char*)&bits;
  to[0] = bytes[0];
  to[1] = bytes[1];
  to[2] = bytes[2];
  to[3] = bytes[3];
  return bits;
}

// n rounded to nearest even to 24 significant bits. |n| < 2^62.
static int64_t round_to_float(int64_t n) {
  const int cut = ref_bit_length(ref_magnitude(n)) - kFloatBits;
  return cut <= 0 ? n : ref_shift_right_rne(n, cut) * (INT64_C(1) << cut);
}

// rne(float32(float32(sum) * number)), clipped to +-2^30; the number has a mantissa of 24 bits.
static int64_t times_float(int32_t sum, uint32_t number) {
  const int biased = (int)(number >> 23 & 0xff);
  if (biased == 0) return 0;
  const int64_t size = (int64_t)((number & 0x7fffff) | 0x800000);
  const int64_t product = round_to_float(round_to_float(sum) * (number >> 31 != 0 ? -size : size));
  return ref_saturate(ref_rescale_rne(product, 150 - biased), INT64_C(1) << 30);
}

bool ref_rescale_element(const RefRescale* args, int64_t i, int64_t c) {
  const int64_t wide = times_float(args->sums[i], bits_of(args->multipliers + c));
  args->out[i] = (int8_t)ref_clamp(wide, args->least, args->most);
  return wide > args->most || (args->least < 0 && wide < args->least);
}

int64_t ref_rescale_rows(const RefRescale* args, int64_t begin_row, int64_t end_row) {
  int64_t clipped = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args->channels; ++c) {
      clipped += ref_rescale_element(args, row * args->channels + c, c);
    }
  }
  return clipped;
}
