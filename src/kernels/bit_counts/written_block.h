// Statistics of a block that was written with an exponent decided before.
#pragma once

#include "kernels/bit_counts/piece_counts.h"

namespace mantissa::kernels {

struct WrittenExponents {
  int decided_exponent = 0;  // that the statistics are about
  int written_exponent = 0;  // that the block was given: the decided one if the shift allowed it
  int largest_exponent = kUnmeasured;  // that clips nothing; kUnmeasured: all are zero
};

// The counts of a block of `count` mantissas.
inline LargeCounts count_block(const BitCountKernels& kernel, ThreadPool& pool,
                               ConstMantissaSpan mantissas, int64_t count,
                               Counted counted = Counted::kAll) {
  constexpr int64_t kCountedPerThread = 65536;
  const int64_t bytes = gradient_bytes(mantissas.bits);
  PieceCounts counts(kernel, std::min<int64_t>(pool.size(), kMaximumParts), counted);
  parallel_ranges(pool, count, kCountedPerThread, [&](int64_t begin, int64_t end, int64_t part) {
    counts.add({mantissas.as<std::byte>() + begin * bytes, mantissas.bits}, end - begin, part);
  });
  return counts.large();
}

// The statistics of a block of `count` mantissas at exponents.written_exponent. `saturated` of them
// were clipped; `large` are its counts.
inline BitStatistics bit_statistics(const LargeCounts& large, int64_t count,
                                    const WrittenExponents& exponents, int64_t saturated) {
  const int written = exponents.written_exponent;
  BitStatistics statistics;
  const auto add = [&](int needed, int64_t elements) {
    count_needed(statistics, exponents.decided_exponent, needed, elements);
  };
  add(written + 1, saturated);
  int64_t counted = saturated;  // clipped mantissas are large
  for (int k = 0; k < kFinerExponents; ++k) {
    add(written - k, large[static_cast<size_t>(k)] - counted);
    counted = large[static_cast<size_t>(k)];
  }
  // Many of the rest are zeros, which fit every exponent.
  add(std::min(written - kFinerExponents, exponents.decided_exponent), count - counted);
  statistics.largest_exponent = exponents.largest_exponent;
  return statistics;
}

}  // namespace mantissa::kernels
