#include "scalars/circle.h"

#include "reference/numerics/numerics.h"

// x * y in Q31. Magnitudes are at most 2^31, so products are at most 2^62.
static int64_t product(int64_t x, int64_t y) { return ref_shift_right_rne(x * y, 31); }

// sin(a) - a over a, of a square in Q31 up to (pi / 4)^2: Taylor's series up to a^11.
static int64_t sine_series(int64_t square) {
  int64_t sum = 5918 + product(square, -54);
  sum = -426088 + product(square, sum);
  sum = 17895697 + product(square, sum);
  sum = -357913941 + product(square, sum);
  return product(square, sum);
}

// cos(a) - 1: up to a^12.
static int64_t cosine_series(int64_t square) {
  int64_t sum = -592 + product(square, 4);
  sum = 53261 + product(square, sum);
  sum = -2982616 + product(square, sum);
  sum = 89478485 + product(square, sum);
  sum = -1073741824 + product(square, sum);
  return product(square, sum);
}

// The nearest quarter turn, and the rest, which is at most an eighth of a turn.
RefCirclePoint ref_circle_q30(uint64_t angle) {
  const int64_t turn = 1686629713;  // 2 pi in Q28
  const uint64_t eighth = (uint64_t)1 << 61;
  const uint64_t quarter = (angle + eighth) >> 62;
  // In [-2^61, 2^61). The sum is not negative, so its shift needs no sign.
  const int64_t rest = (int64_t)((angle + eighth) & (((uint64_t)1 << 62) - 1)) - (int64_t)eighth;
  const int64_t radians = ref_shift_right_rne(ref_shift_right_rne(rest, 30) * turn, 31);  // Q31
  const int64_t square = product(radians, radians);
  const int64_t one = (int64_t)1 << 31;
  const int32_t sine =
      (int32_t)ref_shift_right_rne(radians + product(radians, sine_series(square)), 1);
  const int32_t cosine = (int32_t)ref_shift_right_rne(one + cosine_series(square), 1);
  RefCirclePoint point = {cosine, sine};
  if (quarter == 1) point = (RefCirclePoint){-sine, cosine};
  if (quarter == 2) point = (RefCirclePoint){-cosine, -sine};
  if (quarter == 3) point = (RefCirclePoint){sine, -cosine};
  return point;
}
