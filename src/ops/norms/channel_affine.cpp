#include "ops/norms/channel_affine.h"

#include <vector>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/rescale.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

kernels::ChannelSums channel_sums(const OpContext& c, const BatchNormWorkspace& work,
                                  int64_t channels, int64_t rows) {
  const auto part_sums = [&](int64_t part) {
    int64_t* base = work.partial + part * 3 * channels;
    auto* extremes = reinterpret_cast<int32_t*>(base + 2 * channels);
    return kernels::ChannelSums{base, base + channels, extremes, extremes + channels};
  };
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, batch_norm_grain(channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        const kernels::ChannelSums sums = part_sums(part);
        std::fill_n(sums.sum, 2 * channels, 0);
        std::fill_n(sums.minimum, channels, INT32_MAX);
        std::fill_n(sums.maximum, channels, INT32_MIN);
        c.kernel.table->batch_norm->channel_sums(value_of(c.inputs[0]), channels, begin, end, sums);
      });
  kernels::ChannelSums total = part_sums(0);
  for (int64_t part = 1; part < parts; ++part) {
    const kernels::ChannelSums sums = part_sums(part);
    for (int64_t i = 0; i < channels; ++i) {
      total.sum[i] += sums.sum[i];
      total.sum_squares[i] += sums.sum_squares[i];
      total.minimum[i] = std::min(total.minimum[i], sums.minimum[i]);
      total.maximum[i] = std::max(total.maximum[i], sums.maximum[i]);
    }
  }
  return total;
}

Extremes affine_extremes(const kernels::ChannelSums& sums, const int32_t* multiplier,
                         const int64_t* offset, int64_t channels) {
  Extremes found;
  for (int64_t i = 0; i < channels; ++i) {
    for (const int64_t q : {sums.minimum[i], sums.maximum[i]}) {
      const int64_t wide = q * multiplier[i] + offset[i];
      found.lowest = std::min(found.lowest, wide);
      found.highest = std::max(found.highest, wide);
    }
  }
  return found;
}

ChannelAffine frozen_affine(const OpContext& c, int64_t channel) {
  return c.node.op == &kRescale ? rescale_affine(c, channel) : running_affine(c, channel);
}

int freeze_affine(const OpContext& c, int32_t* multiplier, int64_t* offset) {
  const int64_t channels = c.output().shape.last();
  std::vector<Real> reals(static_cast<size_t>(2 * channels));
  const auto affine = [&](int64_t i) { return of_mantissas(c, i, frozen_affine(c, i)); };
  return fixed_point_affine(c, channels, affine, reals.data(), multiplier, offset);
}

}  // namespace mantissa::ops
