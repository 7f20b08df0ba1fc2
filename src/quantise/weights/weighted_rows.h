// The loop that all of these sums spend their time in.
#pragma once

#include <cstdint>

namespace mantissa::quantise {

// sums[j] += factors[r] * rows[r][j], over the rows in their order: the same bits for any division
// of the columns.
inline void add_weighted_rows(const double* factors, const double* rows, int64_t stride,
                              int64_t count, int64_t columns, double* __restrict sums) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) {
    const double *a = rows + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    const double fa = factors[r], fb = factors[r + 1], fc = factors[r + 2], fd = factors[r + 3];
    for (int64_t j = 0; j < columns; ++j) {
      sums[j] = (((sums[j] + fa * a[j]) + fb * b[j]) + fc * c[j]) + fd * d[j];
    }
  }
  for (; r < count; ++r) {
    const double* const a = rows + r * stride;
    for (int64_t j = 0; j < columns; ++j) sums[j] += factors[r] * a[j];
  }
}

}  // namespace mantissa::quantise
