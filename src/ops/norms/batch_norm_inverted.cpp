// Batch norm whose backward pass inverts it: x^ = (y - beta) / gamma from the output, so that the
// input need not be kept. Source: Recompute [0013]; METHODS section 4, B.
//
// A ReLU that alone reads the output is an operator of its own forward (norm_relu). It computes the
// activation, and computes it again if it was not kept. The output gives its mask, so backward it
// is part of this op. Positive values are the same as with a fused ReLU, to the bit.
//
// The output is rounded, and says nothing about the input if gamma is zero. So channels that it
// determines badly keep their part of the input, at most one channel out of every `room`. If there
// are more, they take turns. A channel that is left out counts as constant in that step: x^ = 0.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "ops/attributes.h"
#include "ops/kernel_name.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/batch_norm_parts.h"
#include "ops/ops.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

OpMemory memory(const OpShapes& s, const PlanningContext& planning) {
  const int64_t channels = s.output.last(), rows = s.output.count() / channels;
  OpMemory memory = kBatchNorm.integer.memory(s, planning);
  memory.saved_bytes += InversionSaved::bytes(s.attributes->as<BatchNormAttributes>(), channels,
                                              rows, s.input_bits(0) <= 8 ? 1 : 2);
  return memory;
}

// Whether rounding to units of the output hides too much of x^: more than a quarter of a standard
// deviation, or if the offset is much larger than the scale.
bool is_ill_conditioned(const Real& gamma, const Real& beta, int exponent) {
  return abs(gamma) < ldexp(Real(1), exponent + 1) || ldexp(abs(gamma), 3) < abs(beta);
}

// Decides for each channel: inverted, kept or left out.
void choose_kept(const OpContext& c, const InversionSaved& kept, int64_t channels) {
  const int exponent = *c.output().exponent + kept.header->negative_shift;  // the coarser unit
  int64_t ill_conditioned = 0;
  for (int64_t i = 0; i < channels; ++i) {
    const Real gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
    const bool ill = is_ill_conditioned(gamma, beta, exponent);
    kept.place[i] = ill ? InversionSaved::kLeftOut : InversionSaved::kInverted;
    ill_conditioned += ill;
  }
  const int64_t room = InversionSaved::most_kept(c.attributes<BatchNormAttributes>(), channels);
  const int64_t count = std::min(ill_conditioned, room);
  kept.header->count = count;
  kept.header->is_wide = !is_bytes(c.inputs[0]);
  c.step.totals->norm_channels_left_out += ill_conditioned - count;
  if (ill_conditioned == 0) return;
  const int64_t first = c.step.scalars->step % ill_conditioned * room % ill_conditioned;
  int64_t turn = ill_conditioned - first;
  for (int64_t i = 0; i < channels; ++i) {
    if (kept.place[i] == InversionSaved::kInverted) continue;
    const int64_t place = turn++ % ill_conditioned;
    if (place >= count) continue;
    kept.place[i] = static_cast<int32_t>(place);
    kept.channel[place] = static_cast<int32_t>(i);
  }
}

template <typename T>
void copy_kept(const OpContext& c, const InversionSaved& kept, int64_t channels, int64_t rows) {
  const T* in = c.inputs[0].as<T>();
  T* values = reinterpret_cast<T*>(kept.values);
  const int64_t count = kept.header->count;
  if (count == 0) return;
  kernels::parallel_ranges(*c.kernel.pool, rows, batch_norm_grain(count),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               for (int64_t k = 0; k < count; ++k) {
                                 values[row * count + k] = in[row * channels + kept.channel[k]];
                               }
                             }
                           });
}

void forward(const OpContext& c) {
  if (!is_training(c.mode.exponents)) return batch_norm_forward(c, nullptr);
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  const BatchNormSaved saved(c.memory.saved, channels);
  const InversionSaved kept(c.memory.saved, c.attributes<BatchNormAttributes>(), channels);
  if (!c.mode.recomputes) *kept.header = {};
  batch_norm_forward(c, c.mode.relu ? &kept.header->negative_shift : nullptr);
  if (c.mode.recomputes) return;
  for (int64_t i = 0; i < channels; ++i) {
    kept.inverse_deviation[i] =
        ldexp(Real(saved.inverse_sigma[i]), -channel_exponent(c.inputs[0], i)).to_double();
  }
  choose_kept(c, kept, channels);
  if (is_bytes(c.inputs[0])) {
    copy_kept<int8_t>(c, kept, channels, rows);
  } else {
    copy_kept<int16_t>(c, kept, channels, rows);
  }
}

// Room for the inputs of one channel out of this many.
constexpr AttributeSpec kSchema[] = {flag<&BatchNormAttributes::zero_scale>("zero_scale", false),
                                     whole<&BatchNormAttributes::room>("room", 8, 1, 1 << 20)};

std::vector<Parameter> parameters(const Attributes& attributes, std::span<const Shape> inputs) {
  return kBatchNorm.parameters(attributes, inputs);
}

// The output takes the input's place.
void emit_inverted_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.outputs(), e.grad_outputs(), e.saved(), e.sums()});
  e.emit(e.rows().grad_input, {e.outputs(), e.grad_outputs(), e.saved(), e.grad_inputs()});
}

}  // namespace

const Op kBatchNormInverted = {
    .name = "batch_norm_inverted",
    .traits = {.takes = TakenExponents::kOfChannels},
    .attributes = schema<BatchNormAttributes>(kSchema),
    .infer_shape = same_shape,
    .parameters = parameters,
    .integer = {.memory = memory,
                .check = check_batch_norm,
                .forward = {.run = forward},
                .grad_input = {.run = inverted_batch_norm_backward_input},
                .grad_weights = {.run = inverted_batch_norm_backward_weights},
                .statistics = {.run = update_running_statistics},
                .kernel = kernel_name<&kernels::KernelTable::batch_norm>},
    .emit_gradient = emit_inverted_gradient,
    .frozen = &kScaleOffset};

}  // namespace mantissa::ops
