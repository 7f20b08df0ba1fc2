// The arithmetic of row norms, element by element from `begin` on: the reference, and the rest of a
// row after its whole vectors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/row_norms/row_norms.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

// n * 2^-shift to nearest, ties to even; |n| < 2^125, and the result fits int64.
inline int64_t rounded(__int128 n, int shift) {
  if (shift > 120) return 0;
  if (shift == 0) return static_cast<int64_t>(n);
  const __int128 half = __int128{1} << (shift - 1);
  return static_cast<int64_t>((n + half - 1 + ((n >> shift) & 1)) >> shift);
}

template <typename T>
RowSums sums_from(const T* q, int64_t begin, int64_t channels, RowSums sums) {
  for (int64_t i = begin; i < channels; ++i) {
    sums.sum += q[i];
    sums.squares += int64_t{q[i]} * q[i];
  }
  return sums;
}

template <typename T>
void normalise_from(const T* q, const RowNorm& norm, int64_t begin, int64_t channels, int32_t* x) {
  for (int64_t i = begin; i < channels; ++i) {
    x[i] = static_cast<int32_t>(
        rescale_rne((channels * q[i] - norm.sum) * norm.factor, norm.shift - kNormFraction));
  }
}

inline void scale_from(const int32_t* x, const int16_t* scale, const int64_t* offset, int64_t begin,
                       int64_t channels, int64_t* wide) {
  for (int64_t i = begin; i < channels; ++i) {
    wide[i] = int64_t{x[i]} * scale[i] + (offset == nullptr ? 0 : offset[i]);
  }
}

// Sums over a row of d and of d x^.
struct GradientTotals {
  int64_t d = 0;
  __int128 d_x = 0;
};

template <typename T>
GradientTotals totals_from(const RowNormGradient& args, const T* dy, int64_t begin,
                           int64_t channels, GradientTotals totals) {
  for (int64_t i = begin; i < channels; ++i) {
    const int64_t d = int64_t{dy[i]} * args.scale[i];
    if (args.centred) totals.d += d;
    totals.d_x += __int128{d} * args.x[i];
  }
  return totals;
}

template <typename T>
void gradient_from(const RowNormGradient& args, const GradientTotals& totals, const T* dy,
                   int64_t begin, int64_t end, int64_t channels, int64_t* wide) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t d = int64_t{dy[i]} * args.scale[i];
    const int64_t centred =
        channels * d - totals.d - rounded(args.x[i] * totals.d_x, 2 * kNormFraction);
    wide[i] = rounded(__int128{centred} * args.factor, args.shift);
  }
}

template <typename T>
void add_gradients_from(const int32_t* x, const T* dy, int64_t begin, int64_t channels,
                        int64_t* of_scale, int64_t* of_offset) {
  for (int64_t i = begin; i < channels; ++i) {
    of_scale[i] += int64_t{dy[i]} * x[i];
    of_offset[i] += dy[i];
  }
}

}  // namespace mantissa::kernels
