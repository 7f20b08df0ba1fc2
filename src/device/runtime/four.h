// Four mantissas of 8 bits, as a machine multiplies them best. Sums of products are exact, so that
// their order is free.
#pragma once

#include "reference/elements/elements.h"

#if defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>

// Two products in one instruction: Cortex-M4, M7, M33 and above, of two mantissas that are widened
// to 16 bits: 0 and 2, or 1 and 3.
REF_LOOP int16x2_t dev_even(uint32_t word) { return __sxtb16((int8x4_t)word); }
// The compiler does not find that the instruction can also turn the word.
REF_LOOP int16x2_t dev_odd(uint32_t word) {
#if defined(__GNUC__)
  int16x2_t odd;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(word));
  return odd;
#else
  return __sxtb16((int8x4_t)(word >> 8 | word << 24));
#endif
}

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

// Vectors want bytes: Cortex-M55 and above.
typedef struct DevFour {
  uint32_t word;
} DevFour;

REF_LOOP DevFour dev_four_in(uint32_t word) {
  const DevFour four = {word};
  return four;
}
REF_LOOP int16x2_t dev_even_of(DevFour four) { return dev_even(four.word); }
REF_LOOP int16x2_t dev_odd_of(DevFour four) { return dev_odd(four.word); }
#else
typedef struct DevFour {
  int16x2_t even, odd;
} DevFour;

// Four mantissas in a word, the first in its lowest bits.
REF_LOOP DevFour dev_four_in(uint32_t word) {
  const DevFour four = {dev_even(word), dev_odd(word)};
  return four;
}
REF_LOOP int16x2_t dev_even_of(DevFour four) { return four.even; }
REF_LOOP int16x2_t dev_odd_of(DevFour four) { return four.odd; }
#endif

REF_LOOP DevFour dev_four(const int8_t* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return dev_four_in(word);
}

// The sum of the four products and `sum`.
REF_LOOP int32_t dev_add_products(DevFour a, DevFour b, int32_t sum) {
  return __smlad(dev_odd_of(a), dev_odd_of(b), __smlad(dev_even_of(a), dev_even_of(b), sum));
}

// Adds each product to a sum of its own.
REF_LOOP void dev_add_each(DevFour a, DevFour b, int32_t sums[4]) {
  sums[0] = __smlabb(dev_even_of(a), dev_even_of(b), sums[0]);
  sums[1] = __smlabb(dev_odd_of(a), dev_odd_of(b), sums[1]);
  sums[2] = __smlatt(dev_even_of(a), dev_even_of(b), sums[2]);
  sums[3] = __smlatt(dev_odd_of(a), dev_odd_of(b), sums[3]);
}

#else

typedef struct DevFour {
  int8_t of[4];
} DevFour;

REF_LOOP DevFour dev_four_in(uint32_t word) {
  const DevFour four = {{(int8_t)(word & 0xff), (int8_t)(word >> 8 & 0xff),
                         (int8_t)(word >> 16 & 0xff), (int8_t)(word >> 24)}};
  return four;
}

REF_LOOP DevFour dev_four(const int8_t* from) {
  const DevFour four = {{from[0], from[1], from[2], from[3]}};
  return four;
}

REF_LOOP int32_t dev_add_products(DevFour a, DevFour b, int32_t sum) {
  return sum + a.of[0] * b.of[0] + a.of[1] * b.of[1] + a.of[2] * b.of[2] + a.of[3] * b.of[3];
}

REF_LOOP void dev_add_each(DevFour a, DevFour b, int32_t sums[4]) {
  sums[0] += a.of[0] * b.of[0];
  sums[1] += a.of[1] * b.of[1];
  sums[2] += a.of[2] * b.of[2];
  sums[3] += a.of[3] * b.of[3];
}

#endif
