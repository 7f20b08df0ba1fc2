#include "reference/layers/row_norms.h"

#include "reference/elements/elements.h"

REF_LOOP RefRowSums sums_of(int bytes, const void* q, int64_t channels) {
  RefRowSums sums = {0, 0};
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t n = ref_load(q, bytes, i);
    sums.sum += n;
    sums.squares += n * n;
  }
  return sums;
}

RefRowSums ref_row_sums(RefConstSpan q, int64_t channels) {
  REF_WITH_SHORT_BYTES(q.bits, bytes, return sums_of(bytes, q.data, channels));
}

// |C q - S| < 2^29, times a factor below 2^31.
REF_LOOP void normalise(int bytes, const void* q, const RefRowNorm* norm, int64_t channels,
                        int32_t* x) {
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t centred = channels * ref_load(q, bytes, i) - norm->sum;
    x[i] = (int32_t)ref_rescale_rne(centred * norm->factor, norm->shift - REF_NORM_FRACTION);
  }
}

void ref_normalise_row(RefConstSpan q, const RefRowNorm* norm, int64_t channels, int32_t* x) {
  REF_WITH_SHORT_BYTES(q.bits, bytes, normalise(bytes, q.data, norm, channels, x));
}

void ref_scale_row(const int32_t* x, const int16_t* scale, const int64_t* offset, int64_t channels,
                   int64_t* wide) {
  for (int64_t i = 0; i < channels; ++i) {
    wide[i] = (int64_t)x[i] * scale[i] + (offset == NULL ? 0 : offset[i]);
  }
}

// The sums over a row of d and of d x^, the latter by digits: (d2 * 2^24 + d1) * 2^24 + d0 with d1
// and d0 in [0, 2^24).
typedef struct Totals {
  int64_t d, d2, d1, d0;
} Totals;

// |d| <= 2^46, and the |x^| of a row add up to at most C 2^24 = 2^36, since their squares add up to
// C: both sums of products with a half of d are below 2^60. Carries are floors.
REF_LOOP Totals totals_of(int bytes, const RefRowNormGradient* args, const void* dy,
                          int64_t channels) {
  const int64_t mask = ((int64_t)1 << REF_NORM_FRACTION) - 1;
  int64_t sum = 0, high = 0, low = 0;
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t d = ref_load(dy, bytes, i) * args->scale[i];
    sum += d;
    low += (d & mask) * args->x[i];
    high += (d >> REF_NORM_FRACTION) * args->x[i] + (low >> REF_NORM_FRACTION);
    low &= mask;
  }
  const Totals totals = {args->centred ? sum : 0, high >> REF_NORM_FRACTION, high & mask, low};
  return totals;
}

// x^ * (sum of d x^) to nearest even, by the digits of the sum (ref_round_pair): its last digit
// counts 2^-24 of the one before.
static int64_t mean_of(const Totals* totals, int64_t x) {
  const int64_t low = x * totals->d0, high = x * totals->d1 + (low >> REF_NORM_FRACTION);
  const int64_t cut = low & (((int64_t)1 << REF_NORM_FRACTION) - 1);
  // The tie's parity is that of the whole.
  const int64_t whole = x * totals->d2;
  const int64_t half = (int64_t)1 << (REF_NORM_FRACTION - 1);
  const int64_t odd = (whole + (high >> REF_NORM_FRACTION)) & 1;
  return whole + ((high + half - 1 + (cut != 0 ? 1 : odd)) >> REF_NORM_FRACTION);
}

// n * factor * 2^-shift to nearest even, for 0 <= factor < 2^31 and a shift of at least 30: from
// the halves of n, of 29 bits and the rest.
static int64_t scaled(int64_t n, int64_t factor, int shift) {
  enum { kSplit = 29 };
  if (shift > 91) return 0;
  const int64_t high = (n >> kSplit) * factor, low = (n & (((int64_t)1 << kSplit) - 1)) * factor;
  return ref_round_pair(high, low, kSplit, shift);
}

REF_LOOP void gradient(int bytes, const RefRowNormGradient* args, const void* dy, int64_t channels,
                       int64_t* wide) {
  const Totals totals = totals_of(bytes, args, dy, channels);
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t d = ref_load(dy, bytes, i) * args->scale[i];
    const int64_t centred = channels * d - totals.d - mean_of(&totals, args->x[i]);
    wide[i] = scaled(centred, args->factor, args->shift);
  }
}

void ref_row_norm_gradient(const RefRowNormGradient* args, RefConstSpan dy, int64_t channels,
                           int64_t* wide) {
  REF_WITH_BYTES(dy.bits, bytes, gradient(bytes, args, dy.data, channels, wide));
}

REF_LOOP void add_gradients(int bytes, const int32_t* restrict x, const void* restrict dy,
                            int64_t channels, int64_t* restrict of_scale,
                            int64_t* restrict of_offset) {
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t n = ref_load(dy, bytes, i);
    of_scale[i] += n * x[i];
    of_offset[i] += n;
  }
}

void ref_add_row_gradients(const int32_t* x, RefConstSpan dy, int64_t channels, int64_t* of_scale,
                           int64_t* of_offset) {
  REF_WITH_SHORT_BYTES(dy.bits, bytes,
                       add_gradients(bytes, x, dy.data, channels, of_scale, of_offset));
}
