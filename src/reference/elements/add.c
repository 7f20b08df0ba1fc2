// Sums of two blocks at one exponent.
#include "reference/elements/elements.h"
#include "reference/elements/elementwise.h"

enum { kBlock = 1 << 20 };  // elements whose clipped ones are counted in 32 bits

// rescale_rne in int32 for 8-bit values: left shifts up to 16, right shifts up to 30.
REF_LOOP int32_t align8(bool right, int32_t n, int left, const RefRound32* round) {
  const int32_t up = n * ((int32_t)1 << left);
  return right ? ref_rounded32(round, up) : up;
}

// |sum| <= 2^24: a fixed exponent below the sum's saturates from 7 left shifts on (the product is
// at least -2^31), one far above it gives 0 from 26 right shifts on.
REF_LOOP RefStatistics add_aligned(bool right, const RefAdd* args, int64_t begin, int64_t end) {
  const int8_t* restrict a = args->a;
  const int8_t* restrict b = args->b;
  int8_t* restrict out = args->out;
  const int left_a = args->shift_a < 0 ? -args->shift_a : 0;
  const int left_b = args->shift_b < 0 ? -args->shift_b : 0;
  const RefRound32 right_a = ref_round32((int)ref_clamp(args->shift_a, 0, 30));
  const RefRound32 right_b = ref_round32((int)ref_clamp(args->shift_b, 0, 30));
  const int32_t floor = args->relu ? 0 : INT32_MIN;
  RefRange32 range = {0, 0};
  if (out == NULL) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t sum =
          align8(right, a[i], left_a, &right_a) + align8(right, b[i], left_b, &right_b);
      ref_include32(&range, sum < floor ? floor : sum);
    }
    return ref_statistics(range.low, range.high, 0);
  }
  const int up = args->shift < 0 ? (int)ref_smaller(-args->shift, 7) : 0;
  const RefRound32 round = ref_round32((int)ref_clamp(args->shift, 0, 30));
  const int32_t limit = (int32_t)ref_mantissa_limit(args->bits);
  int64_t saturated = 0;
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t stop = ref_smaller(end, block + kBlock);
    int32_t clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const int32_t sum =
          align8(right, a[i], left_a, &right_a) + align8(right, b[i], left_b, &right_b);
      const int32_t wide = sum < floor ? floor : sum;
      ref_include32(&range, wide);
      const int32_t rounded = ref_rounded32(&round, wide * ((int32_t)1 << up));
      clipped += ref_store_narrow32(out, 1, i, rounded, limit);
    }
    saturated += clipped;
  }
  return ref_statistics(range.low, range.high, saturated);
}

RefStatistics ref_add(const RefAdd* args, int64_t begin, int64_t end) {
  return args->shift_a > 0 || args->shift_b > 0 ? add_aligned(true, args, begin, end)
                                                : add_aligned(false, args, begin, end);
}

// Both addends shifted left by less than `most_left`: |sum| <= 2^29 fits int32, also with the half
// of a shift by 30; from there on it rounds to 0.
REF_LOOP RefStatistics add_narrow(int bytes, int out_bytes, bool relu, const RefAddWide* args,
                                  int64_t begin, int64_t end) {
  const void* restrict a = args->a.data;
  const void* restrict b = args->b.data;
  void* restrict out = args->out.data;
  const int left_a = -args->shift_a, left_b = -args->shift_b;
  const RefRound32 round = ref_round32(args->shift > 30 ? 30 : args->shift);
  const int32_t limit = (int32_t)ref_mantissa_limit(args->out.bits);
  RefRange32 range = {0, 0};
  if (out == NULL) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t sum = ref_load32(a, bytes, i) * ((int32_t)1 << left_a) +
                          ref_load32(b, bytes, i) * ((int32_t)1 << left_b);
      ref_include32(&range, relu && sum < 0 ? 0 : sum);
    }
    return ref_statistics(range.low, range.high, 0);
  }
  int64_t saturated = 0;
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t stop = ref_smaller(end, block + kBlock);
    int32_t clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const int32_t sum = ref_load32(a, bytes, i) * ((int32_t)1 << left_a) +
                          ref_load32(b, bytes, i) * ((int32_t)1 << left_b);
      const int32_t wide = relu && sum < 0 ? 0 : sum;
      ref_include32(&range, wide);
      clipped += ref_store_narrow32(out, out_bytes, i, ref_rounded32(&round, wide), limit);
    }
    saturated += clipped;
  }
  return ref_statistics(range.low, range.high, saturated);
}

// Any shifts, `right` ones among them or not: addends of 16 bits shifted left by up to 40 have sums
// below 2^56.
REF_LOOP RefStatistics add_any(bool right, int bytes, int out_bytes, bool relu,
                               const RefAddWide* args, int64_t begin, int64_t end) {
  const void* restrict a = args->a.data;
  const void* restrict b = args->b.data;
  void* restrict out = args->out.data;
  const int left_a = args->shift_a < 0 ? -args->shift_a : 0;
  const int left_b = args->shift_b < 0 ? -args->shift_b : 0;
  const RefRound64 right_a = ref_round64(args->shift_a), right_b = ref_round64(args->shift_b);
  const RefRound64 round = ref_round64(args->shift);
  const int64_t limit = ref_mantissa_limit(args->out.bits);
  RefRange64 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t up_a = ref_load(a, bytes, i) * ((int64_t)1 << left_a);
    const int64_t up_b = ref_load(b, bytes, i) * ((int64_t)1 << left_b);
    const int64_t sum =
        right ? ref_rounded64(&right_a, up_a) + ref_rounded64(&right_b, up_b) : up_a + up_b;
    const int64_t wide = relu && sum < 0 ? 0 : sum;
    ref_include64(&range, wide);
    if (out == NULL) continue;
    saturated += ref_store_narrow(out, out_bytes, i, ref_rounded64(&round, wide), limit);
  }
  return ref_statistics(range.low, range.high, saturated);
}

REF_LOOP RefStatistics add_of(int bytes, int out_bytes, bool relu, const RefAddWide* args,
                              int64_t begin, int64_t end) {
  const int most_left = 29 - 8 * bytes;
  if (args->shift_a > 0 || args->shift_b > 0) {
    return add_any(true, bytes, out_bytes, relu, args, begin, end);
  }
  return -args->shift_a <= most_left && -args->shift_b <= most_left
             ? add_narrow(bytes, out_bytes, relu, args, begin, end)
             : add_any(false, bytes, out_bytes, relu, args, begin, end);
}

RefStatistics ref_add_wide(const RefAddWide* args, int64_t begin, int64_t end) {
  REF_WITH_SHORT_BYTES(args->a.bits, bytes, REF_WITH_BYTES(args->out.bits, out_bytes, {
                         return args->relu ? add_of(bytes, out_bytes, true, args, begin, end)
                                           : add_of(bytes, out_bytes, false, args, begin, end);
                       }));
}
