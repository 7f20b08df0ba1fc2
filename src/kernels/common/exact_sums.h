// For grad_weights by exact sums in scratch.
#pragma once

#include "base/checked.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/parallel_ranges.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

// Bytes of a part of scratch, rounded up so that the next part is aligned.
constexpr size_t aligned_bytes(int64_t bytes) {
  return static_cast<size_t>(round_up<int64_t>(bytes, 64));
}

// An exact sum to its total (convolution.h).
inline void add_sum(int64_t sum, int shift, bool adds, const GradientSums& totals, int64_t i) {
  if (totals.bits == 32) {
    totals.as<int32_t>()[i] = static_cast<int32_t>(sum);
    return;
  }
  int64_t& total = totals.as<int64_t>()[i];
  total = accumulate(adds ? total : 0, rescale_rne(sum, shift));
}

inline void add_sums(ThreadPool& pool, const int64_t* sums, int shift, int64_t count, bool adds,
                     const GradientSums& totals) {
  parallel_ranges(pool, count, kElementsPerThread, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) add_sum(sums[i], shift, adds, totals, i);
  });
}

}  // namespace mantissa::kernels
