// Sums of 128 bits for gradients of parameters: exact for any number of products.
#pragma once

#include "kernels/common/parallel_ranges.h"
#include "ops/narrowing.h"

namespace mantissa::ops {

using Wide = __int128;

// n * 2^-shift for any shift, as rescale_rne.
inline int64_t rescaled(Wide n, int shift) {
  const Wide size = n < 0 ? -n : n;
  if (shift > 0) {
    if (shift > 126) return 0;
    const Wide floor = n >> shift, half = Wide{1} << (shift - 1);
    const Wide rest = n - (floor << shift);
    const Wide rounded = floor + (rest > half || (rest == half && (floor & 1) != 0) ? 1 : 0);
    return static_cast<int64_t>(std::clamp<Wide>(rounded, -kWideLimit, kWideLimit));
  }
  if (bit_length(static_cast<unsigned __int128>(size)) - shift > 61) {
    return n < 0 ? -kWideLimit : kWideLimit;
  }
  return static_cast<int64_t>(n) * (int64_t{1} << -shift);
}

// Adds sums at an exponent to a parameter's gradient: sum_of(i) of its element i, rounded once.
template <typename SumOf>
void add_sums(const Tensor& gradient, int exponent, const SumOf& sum_of) {
  const int shift = *gradient.exponent - exponent;
  for (int64_t i = 0; i < gradient.count(); ++i) {
    int64_t& total = gradient.as<int64_t>()[i];
    total = accumulate(total, rescaled(sum_of(i), shift));
  }
}

}  // namespace mantissa::ops
