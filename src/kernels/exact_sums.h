// What the ways to grad_weights by exact sums in scratch share.
#pragma once

#include "base/checked.h"
#include "kernels/parallel_ranges.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

// Bytes that leave what follows in scratch aligned.
constexpr size_t aligned_bytes(int64_t bytes) {
  return static_cast<size_t>(round_up<int64_t>(bytes, 64));
}

// accumulator[i] += rne(sums[i] >> shift), which stays where it reaches kWideLimit.
inline void accumulate_rounded(ThreadPool& pool, const int64_t* sums, int shift, int64_t count,
                               int64_t* accumulator) {
  constexpr int64_t kGrain = 16384;
  parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      accumulator[i] = accumulate(accumulator[i], rescale_rne(sums[i], shift));
    }
  });
}

}  // namespace mantissa::kernels
