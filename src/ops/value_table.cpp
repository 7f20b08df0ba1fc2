#include "ops/value_table.h"

#include <algorithm>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "ops/narrowing.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGrain = 16384;

// How often each value occurs; counts is [parts][256], the first part becomes the sum.
void count_values(const OpContext& c, const int8_t* in, int64_t* counts) {
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.output.count(), kGrain, [&](int64_t begin, int64_t end, int64_t part) {
        std::fill_n(counts + part * 256, 256, 0);
        c.kernels->elementwise->count_values(in, begin, end, counts + part * 256);
      });
  for (int64_t part = 1; part < parts; ++part) {
    for (int value = 0; value < 256; ++value) counts[value] += counts[part * 256 + value];
  }
}

}  // namespace

int64_t value_table_workspace_bytes(int threads) {
  return std::min<int64_t>(threads, kernels::kMaximumParts) * 256 * int64_t{sizeof(int64_t)};
}

void write_by_table(const OpContext& c, const int8_t* in, const ValueTable& table,
                    int wide_exponent) {
  auto* counts = reinterpret_cast<int64_t*>(c.workspace);
  if (c.recomputes) {  // maximum and clipping are known
    std::fill_n(counts, 256, 0);
  } else {
    count_values(c, in, counts);
  }
  uint64_t maximum = 0;
  for (int value = 0; value < 256; ++value) {
    if (counts[value] == 0) continue;
    maximum = std::max(maximum, magnitude(table[value]));
    if (c.exponent_mode == ExponentMode::kCalibrate) {
      count_wide(c.histogram, table[value], wide_exponent, c.output.bits, counts[value]);
    }
  }
  narrow_by_maximum(c, maximum, wide_exponent, [&](int shift) {
    std::array<int8_t, 256> narrow;
    int64_t saturated = 0;
    for (int value = 0; value < 256; ++value) {
      const int64_t rounded = rescale_rne(table[value], shift);
      narrow[value] = static_cast<int8_t>(saturate(rounded, mantissa_limit(c.output.bits)));
      if (narrow[value] != rounded) saturated += counts[value];
    }
    kernels::parallel_ranges(
        *c.kernel.pool, c.output.count(), kGrain, [&](int64_t begin, int64_t end, int64_t) {
          c.kernels->elementwise->look_up(in, narrow.data(), c.output.as<int8_t>(), begin, end);
        });
    return saturated;
  });
}

}  // namespace mantissa::ops
