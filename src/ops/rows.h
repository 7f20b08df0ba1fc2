// Passes over the rows of a tensor, vectors along its last dimension, whose wide values are
// computed a row at a time.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "ops/narrowing.h"

namespace mantissa::ops {

constexpr int64_t kMostRowChannels = 4096;  // of which a row of wide values lies on the stack

inline int64_t row_grain(int64_t channels) {
  return std::max<int64_t>(1, kernels::kElementsPerThread / 4 / channels);
}

// out = narrow(wide >> shift) for all rows, unless `writes` is false: fill(row, wide) computes the
// wide values of a row.
template <typename Fill>
kernels::WideStatistics narrow_rows(const OpContext& c, const Tensor& out, bool writes, int shift,
                                    const Fill& fill) {
  const int64_t channels = out.shape.last();
  return kernels::parallel_statistics(
      *c.kernel.pool, out.count() / channels, row_grain(channels), [&](int64_t begin, int64_t end) {
        std::array<int64_t, kMostRowChannels> wide;
        kernels::WideStatistics found;
        for (int64_t row = begin; row < end; ++row) {
          fill(row, wide.data());
          kernels::MantissaSpan to = gradient_from(out, row * channels);
          if (!writes) to.data = nullptr;
          found += c.kernels->wide->narrow({wide.data(), shift, to}, 0, channels);
        }
        return found;
      });
}

// context.output = the rows at wide_exponent, requantised to its width in whichever mode.
template <typename Fill>
void write_rows(const OpContext& c, int wide_exponent, const Fill& fill) {
  const int64_t channels = c.output.shape.last();
  if (counts_values(c)) {
    std::array<int64_t, kMostRowChannels> wide;
    for (int64_t row = 0; row < c.output.count() / channels; ++row) {
      fill(row, wide.data());
      for (int64_t i = 0; i < channels; ++i) {
        count_wide(c.histogram, wide[i], wide_exponent, c.output);
      }
    }
  }
  narrow_by_passes(
      c, wide_exponent,
      [&](bool writes, int shift) { return narrow_rows(c, c.output, writes, shift, fill); }, 64);
}

}  // namespace mantissa::ops
