// Group norm: the channels of a group, over all positions of one example, are brought to mean 0
// and deviation 1, then scaled and offset by channel. With a group for each channel it is instance
// norm. Its arithmetic is batch norm's: exact sums, real numbers of 53 bits by integer instructions
// for each group, and integers M and B for each channel: y = q M + B. Each example has a unit of
// its own.
#include <algorithm>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/norms/channel_affine.h"
#include "ops/norms/group_norm_parts.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kGroupSchema[] = {
    whole<&GroupNormAttributes::groups>("groups", 1, 1, INT64_MAX),
    mantissa::real<&GroupNormAttributes::epsilon>("epsilon", 1e-5, 1e-30, 1)};

Result<Shape> infer_groups(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<GroupNormAttributes>();
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one [..., C] input");
  if (inputs[0].last() % attributes.groups != 0) {
    return invalid_input("its " + std::to_string(attributes.groups) + " groups do not divide " +
                         std::to_string(inputs[0].last()) + " channels");
  }
  return inputs[0];
}

std::vector<Parameter> group_parameters(const Attributes&, std::span<const Shape> inputs) {
  const Shape shape{inputs[0].last()};
  return {{.name = "scale",
           .shape = shape,
           .storage = Storage::kMantissa16,
           .initialiser = Initialiser::kOne},
          {.name = "offset", .shape = shape, .storage = Storage::kMantissa16}};
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const GroupSizes sizes(s.inputs[0], *s.attributes);
  const RowMemory phase{.workspace_bytes = GroupNormWorkspace::bytes(sizes)};
  return {.saved_bytes = GroupNormSaved::bytes(sizes), .forward = phase, .grad_input = phase};
}

// Sums of gradients run over an example's rows.
Status check(const OpShapes& s) {
  return check_gradient_sums(s, GroupSizes(s.inputs[0], *s.attributes).rows);
}

// Mean and 1 / sigma of each group of an example, from exact integers.
void find_statistics(const OpContext& c, const GroupSizes& sizes, const GroupNormWorkspace& work,
                     const GroupNormSaved& saved, int64_t example) {
  const int64_t first = example * sizes.channels;
  std::fill_n(work.sum + first, sizes.channels, 0);
  std::fill_n(work.sum_squares + first, sizes.channels, 0);
  std::fill_n(work.minimum + first, sizes.channels, INT32_MAX);
  std::fill_n(work.maximum + first, sizes.channels, INT32_MIN);
  c.kernel.table->batch_norm->channel_sums(value_of(c.inputs[0]), sizes.channels,
                                           example * sizes.rows, (example + 1) * sizes.rows,
                                           {work.sum + first, work.sum_squares + first,
                                            work.minimum + first, work.maximum + first});
  const Real n(sizes.count);
  const Real epsilon =
      ldexp(Real(c.attributes<GroupNormAttributes>().epsilon), -2 * *c.inputs[0].exponent);
  for (int64_t group = example * sizes.groups; group < (example + 1) * sizes.groups; ++group) {
    __int128 sum = 0, squares = 0;
    for (int64_t i = group * sizes.per_group(); i < (group + 1) * sizes.per_group(); ++i) {
      sum += work.sum[i];
      squares += work.sum_squares[i];
    }
    const Real variance = Real(sizes.count * squares - sum * sum) / n / n;
    saved.mean[group] = (Real(sum) / n).to_double();
    saved.inverse_sigma[group] = (Real(1) / sqrt(variance + epsilon)).to_double();
  }
}

// The integers of an example, with a unit of its own: its result does not depend on the others.
void find_integers(const OpContext& c, const GroupSizes& sizes, const GroupNormWorkspace& work,
                   const GroupNormSaved& saved, int64_t example) {
  const int64_t first = example * sizes.channels;
  Real* const reals = work.reals + 2 * first;
  Peak peak;
  for (int64_t channel = 0; channel < sizes.channels; ++channel) {
    const int64_t group = sizes.group_of(first + channel);
    const Real scale = real(c.parameters[0].mantissa, channel) * Real(saved.inverse_sigma[group]);
    const Real offset = real(c.parameters[1].mantissa, channel) - scale * Real(saved.mean[group]);
    reals[2 * channel] = scale;
    reals[2 * channel + 1] = offset;
    add_affine(c, {scale, offset}, peak);
  }
  UnitOfExample& unit = work.units[example];
  unit.is_finite = peak.is_finite;
  unit.exponent = write_affine(c, peak, sizes.channels, reals, work.multiplier + first,
                               work.offset + first);
}

// The largest unit.
int common_exponent(const OpContext& c, const GroupSizes& sizes, const GroupNormWorkspace& work) {
  int largest = work.units[0].exponent;
  for (int64_t n = 0; n < sizes.examples; ++n) {
    largest = std::max(largest, work.units[n].exponent);
    if (!work.units[n].is_finite) c.step.totals->exponent_overflow = true;
  }
  return largest;
}

// The largest result of all examples in this unit, rounded up: as large for every power of two.
uint64_t largest_result(const OpContext& c, const GroupSizes& sizes, const GroupNormWorkspace& work,
                        int exponent) {
  uint64_t largest = 0;
  for (int64_t n = 0; n < sizes.examples; ++n) {
    const int64_t at = n * sizes.channels;
    const Extremes found = affine_extremes(
        {work.sum + at, work.sum_squares + at, work.minimum + at, work.maximum + at},
        work.multiplier + at, work.offset + at, sizes.channels);
    const uint64_t above = magnitude(found.highest), below = magnitude(found.lowest);
    const uint64_t size = c.mode.relu ? above : std::max(above, below);
    const int shift = std::min(62, exponent - work.units[n].exponent);
    largest = std::max(largest, (size + (uint64_t{1} << shift) - 1) >> shift);
  }
  return largest;
}

void forward(const OpContext& c) {
  const GroupSizes sizes = group_sizes_of(c);
  const GroupNormWorkspace work(c.memory.workspace, sizes);
  const GroupNormSaved saved = saved_of(c, sizes);
  // Statistics and maximum are known if the output is computed again.
  for_examples(c, sizes, [&](int64_t n) {
    if (!c.mode.recomputes) find_statistics(c, sizes, work, saved, n);
    find_integers(c, sizes, work, saved, n);
  });
  if (!c.mode.recomputes) *saved.has_sums = 0;
  const int wide_exponent = common_exponent(c, sizes, work);
  const uint64_t maximum = c.mode.recomputes ? 0 : largest_result(c, sizes, work, wide_exponent);
  const auto wide_of = [&, in = Mantissas(c.inputs[0])](int64_t i) {
    const int64_t example = i / (sizes.rows * sizes.channels);
    const int64_t channel = example * sizes.channels + i % sizes.channels;
    const int64_t wide = in[i] * work.multiplier[channel] + work.offset[channel];
    return rescale_rne(c.mode.relu ? std::max<int64_t>(0, wide) : wide,
                       wide_exponent - work.units[example].exponent);
  };
  calibrate(c, wide_exponent, wide_of);
  narrow_by_maximum(
      c, maximum, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
        const auto piece = [&](int64_t begin, int64_t end, uint64_t, int64_t example) {
          const int finer = wide_exponent - work.units[example].exponent;
          const kernels::ScaleOffset args{.in = value_of(c.inputs[0]),
                                          .channels = sizes.channels,
                                          .multiplier = work.multiplier + example * sizes.channels,
                                          .offset = work.offset + example * sizes.channels,
                                          .relu = c.mode.relu,
                                          .shift = std::min(62, shift + finer),
                                          .out = value_of(c.output())};
          return c.kernel.table->batch_norm->scale_offset(args, begin, end);
        };
        return write_examples(c, sizes, c.output(), counts, piece, wide_of).saturated;
      });
}

}  // namespace

const Op kGroupNorm = {.name = "group_norm",
                       .traits = {.applies_relu = true},
                       .attributes = schema<GroupNormAttributes>(kGroupSchema),
                       .infer_shape = infer_groups,
                       .parameters = group_parameters,
                       .integer = {.memory = memory,
                                   .check = check,
                                   .forward = {.run = forward},
                                   .grad_input = {.run = group_norm_backward_input},
                                   .grad_weights = {.run = group_norm_backward_weights},
                                   .kernel = kernel_name<&kernels::KernelTable::batch_norm>},
                       .emit_gradient = emit_weighted_gradient,
                       .fp32 = &fp32::kGroupNorm};

}  // namespace mantissa::ops
