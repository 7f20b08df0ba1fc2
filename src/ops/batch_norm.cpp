// Batch norm: parameters, statistics, the forward pass, and the way to its frozen form. Source:
// METHODS sections 0.3 and 0.8.
//
// Parameters: scale (gamma), offset (beta), running mean and variance. In mantissa units q of the
// input x = q * 2^e_c: y = gamma (q - mean_q) / sigma_q + beta.
#include "ops/batch_norm.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "ops/batch_norm_parts.h"
#include "ops/fp32/fp32.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/same_shape.h"
#include "ops/scale_offset.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kOffsetLimit = int64_t{1} << 44;

constexpr AttributeSpec kSchema[] = {flag("zero_scale", false)};

std::vector<Parameter> parameters(const Attributes& attributes, std::span<const Shape> inputs) {
  const Shape shape{inputs[0].last()};
  const auto scale = attributes.is_set("zero_scale") ? Initialiser::kZero : Initialiser::kOne;
  const auto statistic = [&](const char* name, Initialiser initialiser) {
    return Parameter{.name = name,
                     .shape = shape,
                     .storage = Storage::kReal,
                     .initialiser = initialiser,
                     .trained = false};
  };
  return {{"scale", shape, Storage::kMantissa16, scale},
          {"offset", shape, Storage::kMantissa16},
          statistic("running_mean", Initialiser::kZero),
          statistic("running_variance", Initialiser::kOne)};
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const int64_t channels = s.output.last();
  const PhaseMemory phase{.workspace_bytes = BatchNormWorkspace::bytes(channels)};
  return {.saved_bytes = BatchNormSaved::bytes(channels),
          .statistics_bytes = 2 * channels * int64_t{sizeof(double)},
          .forward = phase,
          .backward_input = phase,
          .backward_weights = phase};
}

// Exact per-channel sums over all rows, reduced over the parts.
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
        c.kernels->batch_norm->channel_sums(value_of(c.inputs[0]), channels, begin, end, sums);
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

// Batch statistics of each channel, rounded from exact integers; the record for the running
// statistics; the guard (sigma of a channel at least one unit).
void batch_statistics(const OpContext& c, const kernels::ChannelSums& sums,
                      const BatchNormSaved& saved, int64_t channels, int64_t rows) {
  auto* record = reinterpret_cast<double*>(c.statistics) + c.micro_batch * 2 * channels;
  const Real n(rows), unbiased(std::max<int64_t>(1, rows - 1));
  const __int128 least_spread = static_cast<__int128>(rows) * rows;
  std::atomic<bool> violated{false};
  for_channels(c, channels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const __int128 squares = static_cast<__int128>(rows) * sums.sum_squares[i];
      const __int128 spread = squares - static_cast<__int128>(sums.sum[i]) * sums.sum[i];
      if (spread < least_spread) violated.store(true, std::memory_order_relaxed);
      const int exponent = channel_exponent(c.inputs[0], i);
      const Real mean = Real(sums.sum[i]) / n, variance = Real(spread) / n / n;
      const Real sigma = sqrt(variance + ldexp(Real(kBatchNormEpsilon), -2 * exponent));
      saved.mean[i] = mean.to_double();
      // A constant channel gives beta: x - mean is zero everywhere, whatever 1 / sigma is.
      saved.inverse_sigma[i] = spread == 0 ? 0 : (Real(1) / sigma).to_double();
      record[i] = ldexp(mean, exponent).to_double();
      record[channels + i] =
          ldexp(rows > 1 ? variance * n / unbiased : variance, 2 * exponent).to_double();
    }
  });
  if (!violated) return;
  ++c.totals->guard_violations;
  if (c.inputs[0].guard_violated != nullptr) *c.inputs[0].guard_violated = 1;
}

// Per-channel scale and offset in mantissa units of the input, from batch or running statistics.
struct Affine {
  Real scale, offset;
};

Affine affine(const OpContext& c, const BatchNormSaved& saved, int64_t i) {
  const Real gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
  if (is_training(c.exponent_mode)) {
    const Real scale = gamma * Real(saved.inverse_sigma[i]);
    return {scale, beta - scale * Real(saved.mean[i])};
  }
  const RunningAffine running = running_affine(c, i);
  return {ldexp(running.scale, channel_exponent(c.inputs[0], i)), running.offset};
}

// Integer multipliers (31 bits, 29 for inputs of 16) and offsets of all channels with one exponent,
// which is returned. `reals` have room for two per channel.
int fixed_point_affine(const OpContext& c, const BatchNormSaved& saved, int64_t channels,
                       Real* reals, int32_t* multiplier, int64_t* offset) {
  const int bits = std::max(8, c.inputs[0].bits);
  const Peak peak = peak_of_channels(c, channels, [&](int64_t begin, int64_t end) {
    Peak found;
    for (int64_t i = begin; i < end; ++i) {
      const Affine a = affine(c, saved, i);
      reals[2 * i] = a.scale;
      reals[2 * i + 1] = a.offset;
      found.add(a.scale);
      found.add(ldexp(a.offset, 1 - bits));
    }
    return found;
  });
  if (!peak.is_finite) c.totals->exponent_overflow = true;
  // So many bits that offsets stay within their limit.
  const int shift = fixed_point_shift(peak.value, std::min(31, 45 - bits));
  for (int64_t i = 0; i < channels; ++i) {
    multiplier[i] = static_cast<int32_t>(to_fixed_point(reals[2 * i], shift, mantissa_limit(32)));
    offset[i] = to_fixed_point(reals[2 * i + 1], shift, kOffsetLimit);
  }
  return -shift;
}

// The extremes of q * multiplier + offset, from those of the channels and 0: exact, without a pass.
struct Extremes {
  int64_t lowest = 0, highest = 0;
};

Extremes affine_extremes(const kernels::ChannelSums& sums, const BatchNormWorkspace& work,
                         int64_t channels) {
  Extremes found;
  for (int64_t i = 0; i < channels; ++i) {
    for (const int64_t q : {sums.minimum[i], sums.maximum[i]}) {
      const int64_t wide = q * work.multiplier[i] + work.offset[i];
      found.lowest = std::min(found.lowest, wide);
      found.highest = std::max(found.highest, wide);
    }
  }
  return found;
}

void forward(const OpContext& c) { batch_norm_forward(c, nullptr); }

}  // namespace

void batch_norm_forward(const OpContext& c, int32_t* negative_shift) {
  const int64_t channels = c.output.shape.last(), rows = c.output.count() / channels;
  const BatchNormSaved saved(c.saved, channels);
  const BatchNormWorkspace work(c.workspace, channels);
  // Statistics and maximum are known where the output is computed again.
  kernels::ChannelSums sums{};
  if (!c.recomputes) sums = channel_sums(c, work, channels, rows);
  if (!c.recomputes && is_training(c.exponent_mode)) {
    batch_statistics(c, sums, saved, channels, rows);
  }
  const int wide_exponent =
      fixed_point_affine(c, saved, channels, work.reals, work.multiplier, work.offset);
  const Extremes extremes = c.recomputes ? Extremes{} : affine_extremes(sums, work, channels);
  const uint64_t above = magnitude(extremes.highest), below = magnitude(extremes.lowest);
  const auto write = [&](int shift, kernels::PieceCounts* counts) {
    if (negative_shift != nullptr && !c.recomputes) {
      *negative_shift =
          std::clamp(exact_shift(below, c.output.bits) - shift, 0, kernels::kMostNegativeShift);
    }
    return scale_and_offset(c, work.multiplier, work.offset, shift, wide_exponent, counts,
                            negative_shift);
  };
  narrow_by_maximum(c, c.relu ? above : std::max(above, below), wide_exponent, write, nullptr,
                    negative_shift ? kernels::Counted::kPositive : kernels::Counted::kAll);
}

Status check_batch_norm(const OpShapes& s) {
  return check_gradient_sums(s, s.output.count() / s.output.last());
}

void update_running_statistics(const OpContext& c) {
  double* mean = c.parameters[2].mantissa.as<double>();
  double* variance = c.parameters[3].mantissa.as<double>();
  const int64_t channels = c.parameters[2].mantissa.count();
  const Real momentum(c.scalars->statistics_momentum);
  const auto approach = [&](double& running, double batch) {
    const Real before(running);
    running = (before + momentum * (Real(batch) - before)).to_double();
  };
  for (int micro_batch = 0; micro_batch < c.micro_batches; ++micro_batch) {
    const auto* record = reinterpret_cast<const double*>(c.statistics) + micro_batch * 2 * channels;
    for_channels(c, channels, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        approach(mean[i], record[i]);
        approach(variance[i], record[channels + i]);
      }
    });
  }
}

RunningAffine running_affine(const OpContext& c, int64_t i) {
  const Real gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
  const Real mean(c.parameters[2].mantissa.as<double>()[i]);
  const Real variance(c.parameters[3].mantissa.as<double>()[i]);
  const Real scale = gamma / sqrt(variance + Real(kBatchNormEpsilon));
  return {scale, beta - scale * mean};
}

int freeze_batch_norm(const OpContext& context, int32_t* multiplier, int64_t* offset) {
  const int64_t channels = context.parameters[0].mantissa.count();
  std::vector<Real> reals(2 * channels);
  return fixed_point_affine(context, BatchNormSaved(nullptr, channels), channels, reals.data(),
                            multiplier, offset);
}

const Op kBatchNorm = {.name = "batch_norm",
                       .traits = {.applies_relu = true,
                                  .weights_read_input = true,
                                  .input_reads_input = true,
                                  .reads_output_if_relu = true,
                                  .guards_input = true},
                       .attributes = kSchema,
                       .infer_shape = same_shape,
                       .parameters = parameters,
                       .memory = memory,
                       .check = check_batch_norm,
                       .forward = forward,
                       .backward_input = batch_norm_backward_input,
                       .backward_weights = batch_norm_backward_weights,
                       .update_statistics = update_running_statistics,
                       .kernel = kernel_name<&kernels::KernelTable::batch_norm>,
                       .frozen = &kScaleOffset,
                       .fp32 = &fp32::kBatchNorm};

}  // namespace mantissa::ops
