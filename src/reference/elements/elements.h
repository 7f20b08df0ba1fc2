// Elements of any width, and how wide numbers become narrow: inside the reference only.
//
// A loop is written once, with the bytes of its elements as an argument. Callers pass constants,
// and the compiler makes one loop for each.
#pragma once

#include "reference/numerics/numerics.h"

#if defined(__GNUC__)
#define REF_LOOP static inline __attribute__((always_inline))
#else
#define REF_LOOP static inline
#endif

// Before a short loop: g++ 12 would unroll it before it looks for vectors, and then find none.
#if defined(__GNUC__)
#define REF_NO_UNROLLING _Pragma("GCC unroll 1")
#else
#define REF_NO_UNROLLING
#endif

// Runs the statement with `bytes`, a constant: the width of mantissas of up to 16 bits.
#define REF_WITH_SHORT_BYTES(bits, bytes, ...) \
  do {                                         \
    if ((bits) <= 8) {                         \
      enum { bytes = 1 };                      \
      __VA_ARGS__;                             \
    } else {                                   \
      enum { bytes = 2 };                      \
      __VA_ARGS__;                             \
    }                                          \
  } while (0)

// The same for mantissas of up to 32 bits.
#define REF_WITH_BYTES(bits, bytes, ...)              \
  do {                                                \
    if ((bits) <= 16) {                               \
      REF_WITH_SHORT_BYTES(bits, bytes, __VA_ARGS__); \
    } else {                                          \
      enum { bytes = 4 };                             \
      __VA_ARGS__;                                    \
    }                                                 \
  } while (0)

// The same for sums of 32 or 64 bits.
#define REF_WITH_SUM_BYTES(bits, bytes, ...) \
  do {                                       \
    if ((bits) <= 32) {                      \
      enum { bytes = 4 };                    \
      __VA_ARGS__;                           \
    } else {                                 \
      enum { bytes = 8 };                    \
      __VA_ARGS__;                           \
    }                                        \
  } while (0)

// Element i of numbers of 1, 2, 4 or 8 bytes.
REF_LOOP int64_t ref_load(const void* from, int bytes, int64_t i) {
  return bytes == 1   ? ((const int8_t*)from)[i]
         : bytes == 2 ? ((const int16_t*)from)[i]
         : bytes == 4 ? ((const int32_t*)from)[i]
                      : ((const int64_t*)from)[i];
}

// The same of up to 4 bytes, for arithmetic in 32 bits: compilers find narrower vectors for it.
REF_LOOP int32_t ref_load32(const void* from, int bytes, int64_t i) {
  return bytes == 1   ? ((const int8_t*)from)[i]
         : bytes == 2 ? ((const int16_t*)from)[i]
                      : ((const int32_t*)from)[i];
}

REF_LOOP void ref_store(void* to, int bytes, int64_t i, int64_t n) {
  if (bytes == 1) {
    ((int8_t*)to)[i] = (int8_t)n;
  } else if (bytes == 2) {
    ((int16_t*)to)[i] = (int16_t)n;
  } else if (bytes == 4) {
    ((int32_t*)to)[i] = (int32_t)n;
  } else {
    ((int64_t*)to)[i] = n;
  }
}

REF_LOOP void ref_copy(void* restrict to, const void* restrict from, int64_t bytes) {
#if defined(__GNUC__)
  __builtin_memcpy(to, from, (size_t)bytes);
#else
  for (int64_t i = 0; i < bytes; ++i) ((char*)to)[i] = ((const char*)from)[i];
#endif
}

// n as a number of so many bytes, which compilers then compare as such.
REF_LOOP int32_t ref_cut(int32_t n, int bytes) {
  return bytes == 1 ? (int8_t)n : bytes == 2 ? (int16_t)n : n;
}

// n, of so many bytes, or 0. By a mask as wide as n: compilers then find vectors of that width.
REF_LOOP int32_t ref_if(bool condition, int bytes, int32_t n) {
  return bytes == 1   ? (int8_t)(n & -(int8_t)condition)
         : bytes == 2 ? (int16_t)(n & -(int16_t)condition)
                      : n & -(int32_t)condition;
}

// Rounding to nearest even with the cases of the shift decided outside the loop: |n| <= 2^30, shift
// in [0, 30].
typedef struct RefRound32 {
  int shift;
  int32_t below_half, odd;
} RefRound32;

REF_LOOP RefRound32 ref_round32(int shift) {
  const RefRound32 round = {shift, shift == 0 ? 0 : ((int32_t)1 << (shift - 1)) - 1, shift != 0};
  return round;
}
REF_LOOP int32_t ref_rounded32(const RefRound32* round, int32_t n) {
  return (n + round->below_half + ((n >> round->shift) & round->odd)) >> round->shift;
}

// |n| < 2^62; from a shift of 62 on all is rounded away.
typedef struct RefRound64 {
  int shift;
  int64_t below_half, odd;
} RefRound64;

REF_LOOP RefRound64 ref_round64(int shift) {
  const int within = shift < 0 ? 0 : shift > 62 ? 62 : shift;
  const RefRound64 round = {within, within == 0 ? 0 : ((int64_t)1 << (within - 1)) - 1,
                            within != 0};
  return round;
}
REF_LOOP int64_t ref_rounded64(const RefRound64* round, int64_t n) {
  return (n + round->below_half + ((n >> round->shift) & round->odd)) >> round->shift;
}

// Stores a rounded number, clipped; whether it was clipped.
REF_LOOP bool ref_store_narrow(void* to, int bytes, int64_t i, int64_t rounded, int64_t limit) {
  const int64_t narrow = ref_saturate(rounded, limit);
  ref_store(to, bytes, i, narrow);
  return narrow != rounded;
}

// The same in 32 bits.
REF_LOOP bool ref_store_narrow32(void* to, int bytes, int64_t i, int32_t rounded, int32_t limit) {
  const int32_t above = rounded < -limit ? -limit : rounded;
  const int32_t narrow = above > limit ? limit : above;
  ref_store(to, bytes, i, narrow);
  return narrow != rounded;
}

// Extremes of wide results, zero among them.
typedef struct RefRange32 {
  int32_t low, high;
} RefRange32;
typedef struct RefRange64 {
  int64_t low, high;
} RefRange64;

REF_LOOP void ref_include32(RefRange32* range, int32_t n) {
  range->low = n < range->low ? n : range->low;
  range->high = n > range->high ? n : range->high;
}
REF_LOOP void ref_include64(RefRange64* range, int64_t n) {
  range->low = n < range->low ? n : range->low;
  range->high = n > range->high ? n : range->high;
}
REF_LOOP RefStatistics ref_statistics(int64_t low, int64_t high, int64_t saturated) {
  const uint64_t below = ref_magnitude(low), above = ref_magnitude(high);
  const RefStatistics statistics = {below > above ? below : above, saturated};
  return statistics;
}

// Notes a wide number and stores it, narrowed: clipped counts towards `saturated`.
REF_LOOP void ref_include(RefStatistics* statistics, int64_t wide, int64_t rounded,
                          int64_t narrow) {
  const uint64_t size = ref_magnitude(wide);
  statistics->maximum = size > statistics->maximum ? size : statistics->maximum;
  statistics->saturated += narrow != rounded;
}

// Notes element i of a loss's wide gradient and stores it, narrowed by a right shift.
REF_LOOP void ref_store_gradient(RefSpan grad, int bytes, int64_t i, int64_t wide, int shift,
                                 RefStatistics* found) {
  const int64_t rounded = ref_shift_right_rne(wide, shift > 62 ? 62 : shift);
  ref_include(found, wide, 0, 0);
  found->saturated += ref_store_narrow(grad.data, bytes, i, rounded, ref_mantissa_limit(grad.bits));
}
