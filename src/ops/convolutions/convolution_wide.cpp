#include "ops/convolutions/convolution_wide.h"

#include <algorithm>

#include "kernels/wide_convolution/wide_convolution.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/convolution_sums.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;
using kernels::WideChoice;
using Workspace = SumWorkspace<int64_t>;

struct ForwardChoices {
  ConvolutionShape shape;
  PieceChoices<WideChoice> chunks;
};

struct GradInputChoice {
  ConvolutionShape shape;
  WideChoice row;
};

struct GradWeightsChoice {
  ConvolutionShape shape;
  ConvolutionChoice planes;
};

// By how many bits the sums are finer than sums of 8-bit operands of the same magnitude.
int extra_bits(int input_bits, int weight_bits) {
  return std::max(0, input_bits - 8) + std::max(0, weight_bits - 8);
}

// Calls visit(part) for each chunk of images once its sums are there: `part` is the output's piece.
template <typename Visit>
void for_each_chunk(const OpContext& c, const kernels::WideForward& whole, const Visit& visit) {
  const ConvolutionShape& s = whole.shape;
  const auto& choices = choices_of<ForwardChoices>(c).chunks;
  const int64_t images = choices.piece;
  for (int64_t first = 0; first < s.batch; first += images) {
    kernels::WideForward chunk = whole;
    chunk.shape.batch = std::min(images, s.batch - first);
    const int64_t in = first * (s.input_count() / s.batch);
    chunk.input.data = gradient_from(c.inputs[0], in).data;
    kernels::wide_forward(choices.of(chunk.shape.batch), *c.kernel.table, chunk, c.kernel);
    Tensor part = c.output();
    part.shape = Shape{chunk.shape.output_count() / s.out_channels, s.out_channels};
    part.data = c.output().as<std::byte>() +
                first * (s.output_count() / s.batch) * element_bytes(c.output().type);
    visit(part);
  }
}

// Brings the sums of all channels to one exponent, below theirs by the shifts.
void raise_channels(const OpContext& c, const Workspace& work, int64_t count) {
  const int64_t channels = c.output().shape.last();
  kernels::parallel_ranges(*c.kernel.pool, count / channels,
                           std::max<int64_t>(1, kWideGrain / channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin * channels; i < end * channels; ++i) {
                               work.sums[i] = rescale_rne(work.sums[i], -work.shifts[i % channels]);
                             }
                           });
}

// At the largest exponent of a channel.
void leave_wide(const OpContext& c, const kernels::WideForward& args, const Workspace& work,
                const SumExponents& exponents, int shift) {
  const int largest = exponents.largest();
  for (int64_t o = 0; o < c.output().shape.last() && exponents.by_channel(); ++o) {
    work.shifts[o] = exponents.of(o) - largest;
  }
  for_each_chunk(c, args, [&](const Tensor& part) {
    if (exponents.by_channel()) raise_channels(c, work, part.count());
    Tensor sums = part;
    sums.bits = 32;
    *c.output().saturated += narrow_wide(c, args.sums, sums, true, shift).saturated;
  });
  set_exponent(c, c.output(), largest + shift);
}

// Guarded outputs: each channel by its own shift.
void narrow_channels(const OpContext& c, const kernels::WideForward& args, const Workspace& work,
                     const SumExponents& exponents) {
  constexpr int kMostShift = 62;
  const int64_t channels = c.output().shape.last();
  if (c.mode.exponents != ExponentMode::kFixed) {
    std::fill_n(work.maxima, channels, uint64_t{0});
    for_each_chunk(c, args, [&](const Tensor& part) {
      for (int64_t i = 0; i < part.count(); ++i) {
        uint64_t& maximum = work.maxima[i % channels];
        maximum = std::max(maximum, magnitude(args.sums[i]));
      }
    });
    choose_exponents(c, work.maxima, exponents);
  }
  choose_channel_shifts(c, exponents, kMostShift, work.shifts);
  for_each_chunk(c, args, [&](const Tensor& part) {
    *c.output().saturated += narrow_elements(c, part, true, 0, [&](int64_t i, int64_t channel) {
                               return shift_right_rne(args.sums[i], work.shifts[channel]);
                             }).saturated;
  });
}

}  // namespace

bool is_wide_forward(const OpContext& c) {
  return c.inputs[0].type == DataType::kInt16 ||
         c.parameters[0].mantissa.type == DataType::kInt16 || c.output().type == DataType::kInt16;
}

bool is_wide_grad_input(const OpContext& c) {
  return c.parameters[0].mantissa.type == DataType::kInt16;
}

bool is_wide_grad_weights(const OpContext& c) { return c.inputs[0].type == DataType::kInt16; }

void plan_wide_convolution(const OpShapes& s, const PlanningContext& planning, OpMemory& memory) {
  const ConvolutionShape shape = convolution_shape(s);
  const int input_bits = s.input_bits(0);
  const int weight_bits = s.parameter_grids[0].bits;
  const kernels::KernelTable& table = *planning.kernels;
  if (input_bits > 8 || weight_bits > 8 || s.output_type == DataType::kInt16) {
    ConvolutionShape chunk = shape;
    chunk.batch = kernels::wide_images_per_chunk(shape);
    memory.forward = {Workspace::bytes(shape.out_channels, chunk.output_count()),
                      chunk_scratch_bytes(shape, chunk.batch, [&](const ConvolutionShape& part) {
                        return kernels::wide_forward_scratch_bytes(table, part, input_bits,
                                                                   weight_bits, planning.threads);
                      })};
  }
  if (weight_bits > 8) {
    memory.grad_input.scratch_bytes = static_cast<int64_t>(kernels::wide_grad_input_scratch_bytes(
        table, shape, s.gradient.bits, weight_bits, planning.threads));
  }
  if (input_bits > 8) {
    memory.grad_weights.scratch_bytes =
        static_cast<int64_t>(kernels::wide_grad_weights_scratch_bytes(
            table, shape, input_bits, s.wide_gradient.bits, planning.threads));
  }
}

Prepared prepare_wide_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output().shape);
  const auto choose_for = [&](int64_t images) {
    ConvolutionShape chunk = shape;
    chunk.batch = images;
    return kernels::choose_wide_forward(*c.kernel.table, chunk, input.bits, weights.bits);
  };
  return prepared(
      ForwardChoices{shape, {shape.batch, kernels::wide_images_per_chunk(shape), choose_for}});
}

Prepared prepare_wide_grad_input(const OpContext& c) {
  const ConvolutionShape shape =
      convolution_shape(c, c.grad_inputs[0].shape, c.grad_output().shape);
  return prepared(GradInputChoice{
      shape, kernels::choose_wide_grad_input(*c.kernel.table, shape, c.grad_output().bits,
                                             c.parameters[0].mantissa.bits)});
}

Prepared prepare_wide_grad_weights(const OpContext& c, int input_bits) {
  const ConvolutionShape shape = convolution_shape(c, c.inputs[0].shape, c.grad_output().shape);
  return prepared(GradWeightsChoice{
      shape,
      kernels::choose_wide_grad_weights(*c.kernel.table, shape, input_bits, c.grad_output().bits)});
}

void wide_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const SumExponents exponents(input, weights);
  const int extra = extra_bits(input.bits, weights.bits);
  const Workspace work(c.memory.workspace, c.output().shape.last());
  const kernels::WideForward args{
      .shape = choices_of<ForwardChoices>(c).shape,
      .input = value_of(input),
      .weights = value_of(weights),
      .bias = align_bias(c, exponents, int64_t{1} << (30 + extra), work.bias),
      .sums = work.sums};
  if (c.output().type == DataType::kInt32) return leave_wide(c, args, work, exponents, extra);
  if (counts_values(c)) {
    for_each_chunk(c, args,
                   [&](const Tensor& part) { count_sums(c, args.sums, part.count(), exponents); });
  }
  if (c.output().is_guarded()) return narrow_channels(c, args, work, exponents);
  const int least = *input.exponent + least_channel_exponent(weights, work.shifts);
  narrow_by_passes(
      c, least,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        kernels::WideStatistics found;
        for_each_chunk(c, args, [&](const Tensor& part) {
          if (exponents.by_channel()) raise_channels(c, work, part.count());
          found += narrow_wide(c, args.sums, part, writes, shift, counts);
        });
        return found;
      },
      64);
}

kernels::WideStatistics write_wide_grad_input(const OpContext& c, int shift,
                                              const kernels::PassCounts& counts) {
  const auto& choice = choices_of<GradInputChoice>(c);
  return kernels::wide_grad_input(
      choice.row, *c.kernel.table,
      {choice.shape, gradient_of(c.grad_output()), value_of(c.parameters[0].mantissa), shift,
       gradient_of(c.grad_inputs[0]), counts.wide},
      c.kernel);
}

void wide_backward_weights(const OpContext& c, const Tensor& input) {
  const Tensor& gradient = c.parameters[0].gradient;
  const auto& [shape, planes] = choices_of<GradWeightsChoice>(c);
  kernels::wide_grad_weights(planes, *c.kernel.table,
                             {shape, value_of(input), gradient_of(c.grad_output()),
                              *gradient.exponent - *input.exponent - *c.grad_output().exponent,
                              gradient.as<int64_t>(), c.adds_gradients()},
                             c.kernel);
}

}  // namespace mantissa::ops
