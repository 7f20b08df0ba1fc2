// Batch norm: parameters, statistics, the forward pass, and the way to its frozen form. Source:
// METHODS sections 0.3 and 0.8.
//
// Parameters: scale (gamma), offset (beta), running mean and variance. In mantissa units q of the
// input x = q * 2^e_c: y = gamma (q - mean_q) / sigma_q + beta.
#include "ops/norms/batch_norm.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/norms/batch_norm_parts.h"
#include "ops/norms/channel_affine.h"
#include "ops/norms/scale_offset.h"
#include "ops/ops.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {flag<&BatchNormAttributes::zero_scale>("zero_scale", false)};

std::vector<Parameter> parameters(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<BatchNormAttributes>();
  const Shape shape{inputs[0].last()};
  const auto scale = attributes.zero_scale ? Initialiser::kZero : Initialiser::kOne;
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
  const RowMemory phase{.workspace_bytes = BatchNormWorkspace::bytes(channels)};
  return {.saved_bytes = BatchNormSaved::bytes(channels),
          .statistics_bytes = 2 * channels * int64_t{sizeof(double)},
          .forward = phase,
          .grad_input = phase,
          .grad_weights = phase};
}

// Batch statistics of each channel, rounded from exact integers; the record for the running
// statistics; the guard (sigma of a channel at least one unit).
void batch_statistics(const OpContext& c, const kernels::ChannelSums& sums,
                      const BatchNormSaved& saved, int64_t channels, int64_t rows) {
  auto* record = reinterpret_cast<double*>(c.memory.statistics) + c.step.micro_batch * 2 * channels;
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
  ++c.step.totals->guard_violations;
  if (c.inputs[0].guard_violated != nullptr) *c.inputs[0].guard_violated = 1;
}

// A channel's scale and offset in mantissa units of the input, from batch or running statistics.
ChannelAffine affine(const OpContext& c, const BatchNormSaved& saved, int64_t i) {
  const Real gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
  if (is_training(c.mode.exponents)) {
    const Real scale = gamma * Real(saved.inverse_sigma[i]);
    return {scale, beta - scale * Real(saved.mean[i])};
  }
  return of_mantissas(c, i, running_affine(c, i));
}

void forward(const OpContext& c) { batch_norm_forward(c, nullptr); }

}  // namespace

void batch_norm_forward(const OpContext& c, int32_t* negative_shift) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  const BatchNormSaved saved(c.memory.saved, channels);
  const BatchNormWorkspace work(c.memory.workspace, channels);
  // Statistics and maximum are known if the output is computed again.
  kernels::ChannelSums sums{};
  if (!c.mode.recomputes) sums = channel_sums(c, work, channels, rows);
  if (!c.mode.recomputes && is_training(c.mode.exponents)) {
    batch_statistics(c, sums, saved, channels, rows);
  }
  const int wide_exponent = fixed_point_affine(
      c, channels, [&](int64_t i) { return affine(c, saved, i); }, work.reals, work.multiplier,
      work.offset);
  const Extremes extremes = c.mode.recomputes
                                ? Extremes{}
                                : affine_extremes(sums, work.multiplier, work.offset, channels);
  const uint64_t above = magnitude(extremes.highest), below = magnitude(extremes.lowest);
  const auto write = [&](int shift, const kernels::PassCounts& counts) {
    if (negative_shift != nullptr && !c.mode.recomputes) {
      *negative_shift =
          std::clamp(exact_shift(below, c.output().bits) - shift, 0, kernels::kMostNegativeShift);
    }
    return scale_and_offset(c, work.multiplier, work.offset, shift, wide_exponent, counts,
                            negative_shift);
  };
  narrow_by_maximum(c, c.mode.relu ? above : std::max(above, below), wide_exponent, write, nullptr,
                    negative_shift ? kernels::Counted::kPositive : kernels::Counted::kAll);
}

Status check_batch_norm(const OpShapes& s) {
  return check_gradient_sums(s, s.output.count() / s.output.last());
}

void update_running_statistics(const OpContext& c) {
  double* mean = c.parameters[2].mantissa.as<double>();
  double* variance = c.parameters[3].mantissa.as<double>();
  const int64_t channels = c.parameters[2].mantissa.count();
  const Real momentum(c.step.scalars->statistics_momentum);
  const auto approach = [&](double& running, double batch) {
    const Real before(running);
    running = (before + momentum * (Real(batch) - before)).to_double();
  };
  for (int micro_batch = 0; micro_batch < c.step.micro_batches; ++micro_batch) {
    const auto* record =
        reinterpret_cast<const double*>(c.memory.statistics) + micro_batch * 2 * channels;
    for_channels(c, channels, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        approach(mean[i], record[i]);
        approach(variance[i], record[channels + i]);
      }
    });
  }
}

ChannelAffine running_affine(const OpContext& c, int64_t i) {
  const Real gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
  const Real mean(c.parameters[2].mantissa.as<double>()[i]);
  const Real variance(c.parameters[3].mantissa.as<double>()[i]);
  const Real scale = gamma / sqrt(variance + Real(kBatchNormEpsilon));
  return {scale, beta - scale * mean};
}

const Op kBatchNorm = {.name = "batch_norm",
                       .traits = {.takes = TakenExponents::kOfChannels, .applies_relu = true},
                       .attributes = schema<BatchNormAttributes>(kSchema),
                       .infer_shape = same_shape,
                       .parameters = parameters,
                       .integer = {.memory = memory,
                                   .check = check_batch_norm,
                                   .forward = {.run = forward},
                                   .grad_input = {.run = batch_norm_backward_input},
                                   .grad_weights = {.run = batch_norm_backward_weights},
                                   .statistics = {.run = update_running_statistics},
                                   .kernel = kernel_name<&kernels::KernelTable::batch_norm>},
                       .emit_gradient = emit_weighted_gradient,
                       .frozen = &kScaleOffset,
                       .fp32 = &fp32::kBatchNorm};

}  // namespace mantissa::ops
