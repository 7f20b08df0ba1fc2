// rescale: a trained scale for each channel, after a layer of few bits that no batch norm follows.
// It also applies the factor that `quantise` before the layer leaves to later operators. Source:
// METHODS section 3, [0127]: the layer's numbers are scale * mantissa.
//
// y = x * scale * R / (N 2^exponent) + bias, with the range R and the levels N of the `quantise`
// node whose parameters it uses; with `bits` 0 there is none, and the factor is 1. The gradient of
// R is as in `quantise`: R / N * u is a function of x and R.
#include "ops/norms/rescale.h"

#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/scale_offset.h"
#include "ops/ops.h"
#include "ops/quantise_steps.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {
    whole<&QuantiseAttributes::bits>("bits", 0, 0, 7),
    whole<&QuantiseAttributes::exponent>("exponent", 0, kExponentMin, kExponentMax),
    flag<&QuantiseAttributes::is_signed>("signed", false),
    flag<&QuantiseAttributes::offset>("offset", false),
    whole<&QuantiseAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<QuantiseAttributes>();
  if (attributes.is_signed && attributes.bits < 2) {
    return invalid_input("wants at least 2 bits with a sign");
  }
  return same_shape(given, inputs);
}

std::vector<Parameter> parameters(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<QuantiseAttributes>();
  std::vector<Parameter> parameters;
  if (attributes.bits > 0) {
    parameters = quantise_parameters(attributes.offset);
  }
  const std::vector<Parameter> own = rescale_parameters(inputs[0].last());
  parameters.insert(parameters.end(), own.begin(), own.end());
  return parameters;
}

const ParameterView& scale_of(const OpContext& c) { return c.parameters[c.parameters.size() - 2]; }
const ParameterView& bias_of(const OpContext& c) { return c.parameters.back(); }

// R / (N 2^exponent).
Real factor_of(const OpContext& c) {
  const auto& attributes = c.attributes<QuantiseAttributes>();
  if (attributes.bits == 0) return Real(1);
  const Real range = range_of(grid_number(c.parameters[0].mantissa));
  return ldexp(range / Real(quantise_levels(attributes)), -attributes.exponent);
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const RowMemory phase{.workspace_bytes = BatchNormWorkspace::bytes(s.output.last())};
  return {.forward = phase, .grad_input = phase, .grad_weights = phase};
}

void forward(const OpContext& c) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  const BatchNormWorkspace work(c.memory.workspace, channels);
  // The maximum is known if the output is computed again.
  kernels::ChannelSums sums{};
  if (!c.mode.recomputes) sums = channel_sums(c, work, channels, rows);
  const Real factor = factor_of(c);
  const auto affine = [&](int64_t i) {
    return of_mantissas(c, i,
                        {real(scale_of(c).mantissa, i) * factor, real(bias_of(c).mantissa, i)});
  };
  const int wide_exponent =
      fixed_point_affine(c, channels, affine, work.reals, work.multiplier, work.offset);
  const Extremes extremes = c.mode.recomputes
                                ? Extremes{}
                                : affine_extremes(sums, work.multiplier, work.offset, channels);
  const uint64_t above = magnitude(extremes.highest), below = magnitude(extremes.lowest);
  narrow_by_maximum(c, c.mode.relu ? above : std::max(above, below), wide_exponent,
                    [&](int shift, const kernels::PassCounts& counts) {
                      return scale_and_offset(c, work.multiplier, work.offset, shift, wide_exponent,
                                              counts);
                    });
}

// The gradient that comes in, through the ReLU that is part of the instruction, and the input.
kernels::BatchNormGradient gradient_arguments(const OpContext& c) {
  return {.grad_out = gradient_of(c.grad_output()),
          .in = value_of(c.inputs[0]),
          .output = c.mode.relu ? value_of(c.output()) : kernels::MantissaSpan{},
          .channels = c.grad_output().shape.last()};
}

// The scale gets the sum of g * x * factor, the bias the sum of g.
void backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const BatchNormWorkspace work(c.memory.workspace, channels);
  const auto args = gradient_arguments(c);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, batch_norm_grain(channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        int64_t* sums = work.partial + part * 2 * channels;
        std::fill_n(sums, 2 * channels, 0);
        c.kernel.table->batch_norm->gradient_sums(args, begin, end, sums, sums + channels);
      });
  const int exponent = *c.grad_output().exponent;
  const Tensor &scale = scale_of(c).gradient, &bias = bias_of(c).gradient;
  const Real factor = factor_of(c);
  for_channels(c, channels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t sum_grad = 0, sum_grad_in = 0;
      for (int64_t part = 0; part < parts; ++part) {
        sum_grad += work.partial[part * 2 * channels + i];
        sum_grad_in += work.partial[(part * 2 + 1) * channels + i];
      }
      const Real of_scale = Real(sum_grad_in) * ldexp(factor, channel_exponent(c.inputs[0], i));
      int64_t& scale_total = scale.as<int64_t>()[i];
      scale_total =
          accumulate(scale_total, to_fixed_point(of_scale, exponent - *scale.exponent, kWideLimit));
      int64_t& bias_total = bias.as<int64_t>()[i];
      bias_total = accumulate(bias_total, rescale_rne(sum_grad, *bias.exponent - exponent));
    }
  });
}

// g * scale * factor.
void backward_input(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t channels = grad_input.shape.last(), rows = grad_input.count() / channels;
  const BatchNormWorkspace work(c.memory.workspace, channels);
  const Real factor = factor_of(c);
  Peak peak;
  for (int64_t i = 0; i < channels; ++i) {
    work.reals[i] = real(scale_of(c).mantissa, i) * factor;
    peak.add(work.reals[i]);
  }
  if (!peak.is_finite) c.step.totals->exponent_overflow = true;
  // Products stay below 2^59, as in batch norm.
  const int wide = fixed_point_shift(peak.value, c.grad_output().bits <= 16 ? 31 : 28);
  for (int64_t i = 0; i < channels; ++i) {
    work.multiplier[i] =
        static_cast<int32_t>(to_fixed_point(work.reals[i], wide, mantissa_limit(32)));
    work.in_multiplier[i] = 0;
    work.offset[i] = 0;
  }
  auto args = gradient_arguments(c);
  args.grad_multiplier = work.multiplier;
  args.in_multiplier = work.in_multiplier;
  args.offset = work.offset;
  args.grad_in = gradient_of(grad_input);
  narrow_gradient(c, grad_input, *c.grad_output().exponent - wide,
                  [&](int shift, const kernels::PassCounts& counts) {
                    args.shift = shift;
                    return write_pieces(
                        c, grad_input, rows, batch_norm_grain(channels), counts,
                        [&](int64_t begin, int64_t end, uint64_t seen) {
                          auto piece = args;
                          piece.seen = seen;
                          return c.kernel.table->batch_norm->gradient(piece, begin, end);
                        },
                        WideGradient(c, c.inputs[0], args));
                  });
}

}  // namespace

std::vector<Parameter> rescale_parameters(int64_t channels) {
  const Shape shape{channels};
  return {{.name = "scale",
           .shape = shape,
           .storage = Storage::kMantissa16,
           .initialiser = Initialiser::kOne},
          {.name = "bias", .shape = shape, .storage = Storage::kMantissa16}};
}

ChannelAffine rescale_affine(const OpContext& c, int64_t channel) {
  return {real(scale_of(c).mantissa, channel) * factor_of(c), real(bias_of(c).mantissa, channel)};
}

const Op kRescale = {.name = "rescale",
                     .traits = {.row_by_row = true, .applies_relu = true},
                     .attributes = schema<QuantiseAttributes>(kSchema),
                     .bits = least_bits<QuantiseAttributes>,
                     .infer_shape = infer,
                     .parameters = parameters,
                     .integer = {.memory = memory,
                                 .check = check_batch_norm,
                                 .forward = {.run = forward},
                                 .grad_input = {.run = backward_input},
                                 .grad_weights = {.run = backward_weights},
                                 .kernel = kernel_name<&kernels::KernelTable::batch_norm>},
                     .emit_gradient = emit_weighted_gradient,
                     .frozen = &kScaleOffset,
                     .fp32 = &fp32::kRescale};

}  // namespace mantissa::ops
