// Sums over the rows of a layer's gradient: of its bias, and of magnitudes.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/common/exact_sums.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/narrowing.h"

namespace mantissa::ops {

// Exact sums over all rows of the gradient, one per channel, by sum_rows or sum_magnitudes; in the
// workspace.
inline std::span<const int64_t> channel_sums(const OpContext& c,
                                      decltype(kernels::ElementwiseKernels::sum_rows) add_rows) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  auto* sums = reinterpret_cast<int64_t*>(c.memory.workspace);
  std::fill_n(sums, kernels::kMaximumParts * channels, 0);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, std::max<int64_t>(1, kernels::kElementsPerThread / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        add_rows(gradient_of(c.grad_output()), channels, begin, end, sums + part * channels);
      });
  for (int64_t i = channels; i < parts * channels; ++i) sums[i % channels] += sums[i];
  return {sums, static_cast<size_t>(channels)};
}

// Bias: exact sums of the gradient over all rows, rounded once into the accumulator.
inline void backward_bias(const OpContext& c) {
  const Tensor& gradient = c.parameters[1].gradient;
  const int shift = *gradient.exponent - *c.grad_output().exponent;
  auto* totals = gradient.as<int64_t>();
  for (const int64_t sum : channel_sums(c, c.kernel.table->elementwise->sum_rows)) {
    *totals = accumulate(*totals, rescale_rne(sum, shift));
    ++totals;
  }
}

}  // namespace mantissa::ops
