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

// Adds rne(sums[i] >> shift) to accumulator[i], or to 0; what reaches kWideLimit stays there.
inline void accumulate_rounded(ThreadPool& pool, const int64_t* sums, int shift, int64_t count,
                               bool adds, int64_t* accumulator) {
  constexpr int64_t kGrain = 16384;
  parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      accumulator[i] = accumulate(adds ? accumulator[i] : 0, rescale_rne(sums[i], shift));
    }
  });
}

}  // namespace mantissa::kernels
