// The sums of a parameter's gradient as an update reads them: present as a whole, or computed a few
// rows at a time whenever they are read, on the thread that reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/op.h"
#include "kernels/common/parallel_ranges.h"
#include "ops/narrowing.h"

namespace mantissa::ops {

// Elements of a parameter below which a thread is not worth waking.
constexpr int64_t kUpdateGrain = 2048;

// Calls function(begin, end) on all threads; the results of parts that had elements.
template <typename Part, typename Function, typename Combine>
Part over_parameter(const OpContext& c, int64_t count, Function&& function, Combine&& combine) {
  std::array<Part, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, count, kUpdateGrain,
      [&](int64_t begin, int64_t end, int64_t part) { partial[part] = function(begin, end); });
  Part total = {};
  for (int64_t part = 0; part < parts; ++part) total = combine(total, partial[part]);
  return total;
}

// How often an update by rows reads them: once for their maximum, once for the step; and once more
// if the maximum of the direction is not clear then.
constexpr int kReadsOfGradient = 2;

// Parts that compute rows of a gradient at the same time.
constexpr int64_t gradient_row_parts(int threads) {
  return std::min<int64_t>(threads, kernels::kMaximumParts);
}

// Whether the update computes the gradient: always, or if it is measured not to fit int32.
inline bool reads_by_rows(const ParameterView& p) {
  return p.gradient_rows != nullptr && (p.narrow_sums == nullptr || *p.narrow_sums == 0);
}

// Computed rows get the exponent of their products. Measured sums have one already.
inline void set_row_exponent(const OpContext& c, const ParameterView& p) {
  if (p.narrow_sums != nullptr) return;
  *p.gradient.exponent = static_cast<int16_t>(*c.inputs[0].exponent + *c.grad_output().exponent);
}

// As over_parameter with function(sums, begin, end), where sums.from(begin) are the sums of the
// parameter's elements [begin, end).
template <typename Part, typename Function, typename Combine>
Part over_gradient(const OpContext& c, const ParameterView& p, Function&& function,
                   Combine&& combine) {
  const kernels::GradientSums sums = sums_of(p);
  if (!reads_by_rows(p)) {
    return over_parameter<Part>(
        c, p.mantissa.count(),
        [&](int64_t begin, int64_t end) { return function(sums, begin, end); }, combine);
  }
  set_row_exponent(c, p);
  const int64_t rows = p.mantissa.shape[0], length = p.mantissa.count() / rows;
  const auto threads = static_cast<size_t>(gradient_row_parts(c.kernel.pool->size()));
  const size_t scratch_bytes = c.kernel.scratch.size() / threads / 64 * 64;
  std::array<Part, kernels::kMaximumParts> partial;
  const auto compute = [&](int64_t begin, int64_t end, int64_t part) {
    const kernels::GradientSums held = sums.from(part * p.rows_at_once * length);
    const auto scratch = c.kernel.scratch.subspan(part * scratch_bytes, scratch_bytes);
    Part total = {};
    for (int64_t first = begin, last = begin; first < end; first = last) {
      last = std::min(end, first + p.rows_at_once);
      p.gradient_rows->compute(c, first, last - first, held.data, scratch);
      // As if all rows were there.
      total = combine(total, function(held.from(-first * length), first * length, last * length));
    }
    partial[part] = total;
  };
  const int64_t parts = kernels::parallel_ranges(*c.kernel.pool, rows, p.rows_at_once, compute);
  Part total = {};
  for (int64_t part = 0; part < parts; ++part) total = combine(total, partial[part]);
  return total;
}

}  // namespace mantissa::ops
