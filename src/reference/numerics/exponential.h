// 2^x, log2 x and their use in softmax, in integers. Source: METHODS, "Exact non-linear functions".
#pragma once

#include "reference/numerics/numerics.h"

// log2(e) in Q16.
#define REF_LOG2_E_Q16 94548

// 2^(fraction / 2^bits) in Q30 for fraction in [0, 2^bits), bits <= 30: relative error below 1e-7;
// monotone for 16 bits. By Horner's rule: powers are below 2^31, products below 2^61.
REF_INLINE int64_t ref_exp2_fraction_q30(int64_t fraction, int bits) {
  int64_t power = 2017902;
  power = 9654007 + ((power * fraction) >> bits);
  power = 59934850 + ((power * fraction) >> bits);
  power = 257869052 + ((power * fraction) >> bits);
  power = 744266013 + ((power * fraction) >> bits);
  power = 1073741824 + ((power * fraction) >> bits);
  return power;
}

// 2^(exponent / 2^16) in Q30 for exponent <= 0, rounded down.
REF_INLINE int64_t ref_exp2_q30(int64_t exponent) {
  const int64_t whole = exponent >> 16;
  if (whole < -62) return 0;
  return ref_exp2_fraction_q30(exponent & 0xffff, 16) >> -whole;
}

// e^-(m * 2^exponent) in Q30, rounded down, for m in [0, 2^15]: error below 4e-7 relative to the
// result and 2^-30.
REF_INLINE int64_t ref_exp_q30(int64_t m, int exponent) {
  const int64_t log2_e_q30 = 1549082005;
  const int64_t power = -ref_rescale_rne(m * log2_e_q30, -exponent);
  const int64_t whole = power >> 30;
  if (whole < -62) return 0;
  return ref_exp2_fraction_q30(power & (((int64_t)1 << 30) - 1), 30) >> -whole;
}

// difference * 2^scale_exponent * log2(e) in Q16, rounded to nearest even and clipped at -2^40; for
// difference <= 0 (a logit minus the largest), |difference| < 2^33.
REF_INLINE int64_t ref_natural_to_log2_q16(int64_t difference, int scale_exponent) {
  const int64_t exponent = ref_rescale_rne(difference * REF_LOG2_E_Q16, -scale_exponent);
  const int64_t floor = -((int64_t)1 << 40);
  return exponent < floor ? floor : exponent;
}

// log2(n) in Q24 for n >= 1, rounded down, by repeated squaring: x < 2^32, so that x * x fits.
REF_INLINE int64_t ref_log2_q24(uint64_t n) {
  const int whole = ref_bit_length(n) - 1;
  uint64_t x = whole >= 31 ? n >> (whole - 31) : n << (31 - whole);  // Q31 in [1, 2)
  int64_t result = whole;
  for (int bit = 0; bit < 24; ++bit) {
    x = (x * x) >> 31;
    result <<= 1;
    if (x >> 32 != 0) {
      x >>= 1;
      result |= 1;
    }
  }
  return result;
}
