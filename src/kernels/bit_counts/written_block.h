// Statistics of a block that was written with an exponent decided before.
#pragma once

#include "kernels/bit_counts/bit_counts.h"
#include "kernels/parallel_ranges.h"

namespace mantissa::kernels {

struct WrittenExponents {
  int decided_exponent = 0;  // that the statistics are about
  int written_exponent = 0;  // that the block was given: the decided one where the shift allowed it
  int wide_exponent = 0;
};

// Of `count` mantissas at exponents.written_exponent, whose wide values `found` is about.
inline BitStatistics bit_statistics(const BitCountKernels& kernel, ThreadPool& pool,
                                    ConstGradient mantissas, int64_t count,
                                    const WrittenExponents& exponents,
                                    const WideStatistics& found) {
  constexpr int64_t kGrain = 65536;
  std::array<LargeCounts, kMaximumParts> partial;
  const int64_t parts =
      parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t part) {
        partial[part] = {};
        kernel.count_large(mantissas, begin, end, partial[part]);
      });
  const int written = exponents.written_exponent;
  BitStatistics statistics;
  const auto add = [&](int needed, int64_t elements) {
    count_needed(statistics, exponents.decided_exponent, needed, elements);
  };
  add(written + 1, found.saturated);
  int64_t counted = found.saturated;  // what was clipped is large
  for (int k = 0; k < kFinerExponents; ++k) {
    int64_t large = 0;
    for (int64_t part = 0; part < parts; ++part) large += partial[part][static_cast<size_t>(k)];
    add(written - k, large - counted);
    counted = large;
  }
  // Many of the rest are zeros, which fit every exponent.
  add(std::min(written - kFinerExponents, exponents.decided_exponent), count - counted);
  if (found.maximum != 0) {
    statistics.largest_exponent =
        exact_exponent(found.maximum, exponents.wide_exponent, mantissas.bits);
  }
  return statistics;
}

}  // namespace mantissa::kernels
