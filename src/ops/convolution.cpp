// Convolution and linear (a 1x1 convolution on 1x1 images): weights [O, KH, KW, C], optional bias.
#include <algorithm>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/exponent.h"
#include "ops/narrowing.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;

constexpr int64_t kGrain = 16384;  // elements below which a thread is not worth waking
constexpr int64_t kBiasLimit = int64_t{1} << 30;

// Weights [O, KH, KW, C] of a convolution, or [O, C] of a linear layer, whose rows are [N, C].
ConvolutionShape convolution_shape(const Attributes& attributes, const Shape& input,
                                   const Shape& output, const Shape& weights) {
  ConvolutionShape shape;
  shape.batch = input[0];
  shape.in_channels = input.last();
  shape.out_channels = output.last();
  if (input.rank == 4) {
    shape.in_height = input[1], shape.in_width = input[2];
    shape.out_height = output[1], shape.out_width = output[2];
    shape.kernel_height = weights[1], shape.kernel_width = weights[2];
    shape.stride = attributes.get("stride", 1);
    shape.padding = attributes.get("padding", 0);
  }
  return shape;
}

ConvolutionShape shape_of(const OpShapes& s) {
  return convolution_shape(*s.attributes, s.inputs[0], s.output, s.parameters[0]);
}

ConvolutionShape shape_of(const OpContext& c, const Shape& input, const Shape& output) {
  return convolution_shape(*c.attributes, input, output, c.parameters[0].mantissa.shape);
}

Result<Shape> infer_convolution(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank != 3) return invalid_input("wants one [H, W, C] input");
  const int64_t kernel = attributes.get("kernel", 3), stride = attributes.get("stride", 1);
  const int64_t padding = attributes.get("padding", 0), channels = attributes.get("channels", 0);
  if (kernel < 1 || stride < 1 || padding < 0 || channels < 1) {
    return invalid_input("wants kernel, stride, channels >= 1 and padding >= 0");
  }
  const int64_t height = inputs[0][0] + 2 * padding, width = inputs[0][1] + 2 * padding;
  if (height < kernel || width < kernel) {
    return invalid_input("a kernel of " + std::to_string(kernel) + " does not fit an image of " +
                         to_string(inputs[0]));
  }
  return Shape{(height - kernel) / stride + 1, (width - kernel) / stride + 1, channels};
}

Result<Shape> infer_linear(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank != 1) return invalid_input("wants one [C] input");
  if (attributes.get("channels", 0) < 1) return invalid_input("wants channels >= 1");
  return Shape{attributes.get("channels", 0)};
}

std::vector<ParameterSpec> parameters(const Attributes& attributes, std::span<const Shape> inputs) {
  const int64_t kernel = attributes.get("kernel", 3), channels = attributes.get("channels", 0);
  const int64_t in = inputs[0].last();
  const bool linear = inputs[0].rank == 1;
  const int64_t fan_in = linear ? in : kernel * kernel * in;
  const Shape shape = linear ? Shape{channels, in} : Shape{channels, kernel, kernel, in};
  // A classifier starts with small logits.
  const auto initialiser =
      attributes.get("classifier", 0) != 0 ? Initialiser::kFanInUniform : Initialiser::kHeUniform;
  std::vector<ParameterSpec> specs = {
      {"weights", shape, ParameterRole::kWeights, initialiser, fan_in}};
  if (attributes.get("bias", 1) != 0) {
    specs.push_back({"bias", Shape{channels}, ParameterRole::kBias, Initialiser::kZero, fan_in});
  }
  return specs;
}

OpMemory memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = shape_of(s);
  const kernels::ConvolutionKernels& kernel = *planning.kernels->convolution;
  const auto bytes = [&](auto scratch) {
    return static_cast<int64_t>(scratch(shape, planning.threads));
  };
  const int64_t per_channel = shape.out_channels * int64_t{sizeof(int64_t)};
  OpMemory memory;
  // Aligned bias, maxima and shifts of the guard; then the wide results unless they stay wide.
  memory.forward.workspace_bytes = 3 * round_up<int64_t>(per_channel, 64);
  if (s.output_type == DataType::kInt8) {
    memory.forward.workspace_bytes += shape.output_count() * int64_t{sizeof(int32_t)};
  }
  memory.forward.scratch_bytes = bytes(kernel.forward_scratch_bytes);
  memory.backward_input.scratch_bytes = bytes(kernel.grad_input_scratch_bytes);
  memory.backward_weights.scratch_bytes = bytes(kernel.grad_weights_scratch_bytes);
  memory.backward_weights.workspace_bytes = kernels::kMaximumParts * per_channel;
  return memory;
}

int64_t multiply_adds(const OpShapes& s) { return shape_of(s).multiply_adds(); }

Status check(const OpShapes& s) {
  const ConvolutionShape shape = shape_of(s);
  const int64_t taps = shape.kernel_height * shape.kernel_width;
  const int64_t depth = taps * std::max(shape.in_channels, shape.out_channels);
  if (depth > kernels::kMaximumForwardDepth) {
    return invalid_input("sums of " + std::to_string(depth) + " products are not exact in int32; " +
                         "at most " + std::to_string(kernels::kMaximumForwardDepth) + " are");
  }
  return {};
}

// The bias at the sum's exponent, rounded to nearest even; null without a bias.
const int32_t* align_bias(const OpContext& c, int sum_exponent, int32_t* aligned) {
  if (c.parameters.size() < 2) return nullptr;
  const Tensor& bias = c.parameters[1].mantissa;
  for (int64_t o = 0; o < bias.count(); ++o) {
    const int64_t wide = rescale_rne(bias.as<int16_t>()[o], sum_exponent - *bias.exponent);
    aligned[o] = static_cast<int32_t>(saturate(wide, kBiasLimit));
    *c.output.saturated += aligned[o] != wide;
  }
  return aligned;
}

// Guarded outputs: one exponent per channel, as an offset from the tensor's.
void narrow_channels(const OpContext& c, const int32_t* wide, int sum_exponent, int32_t* shifts,
                     uint32_t* maxima) {
  const int64_t channels = c.output.shape.last(), rows = c.output.count() / channels;
  const auto& kernel = *c.kernels->elementwise;
  if (c.exponent_mode == ExponentMode::kFixed) {
    for (int64_t o = 0; o < channels; ++o) {
      // 31: everything rounds to zero. The freezing leaves no channel below the sums' exponent.
      shifts[o] =
          std::clamp(*c.output.exponent + c.output.channel_exponent[o] - sum_exponent, 0, 31);
    }
  } else {
    std::fill_n(maxima, channels, 0u);
    kernel.channel_maxima(wide, channels, 0, rows, maxima);
    int largest = 0;
    for (int64_t o = 0; o < channels; ++o) {
      shifts[o] = exact_shift(maxima[o], 8);
      largest = std::max(largest, shifts[o]);
    }
    set_exponent(c, c.output, sum_exponent + largest);
    for (int64_t o = 0; o < channels; ++o) {
      c.output.channel_exponent[o] = static_cast<int8_t>(shifts[o] - largest);
    }
  }
  std::array<int64_t, kernels::kMaximumParts> saturated{};
  const int64_t parts =
      kernels::parallel_ranges(*c.kernel.pool, rows, std::max<int64_t>(1, kGrain / channels),
                               [&](int64_t begin, int64_t end, int64_t part) {
                                 saturated[part] = kernel.requantise_channels(
                                     wide, shifts, channels, begin, end, c.output.as<int8_t>());
                               });
  for (int64_t part = 0; part < parts; ++part) *c.output.saturated += saturated[part];
}

void calibrate(const OpContext& c, const int32_t* wide, int sum_exponent) {
  const int64_t channels = c.output.shape.last();
  const bool guarded = c.output.guarded != nullptr && *c.output.guarded != 0;
  for (int64_t i = 0; i < c.output.count(); ++i) {
    count_wide(c.histogram + (guarded ? i % channels * kHistogramBins : 0), wide[i], sum_exponent);
  }
}

void forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Tensor& weights = c.parameters[0].mantissa;
  const int sum_exponent = *input.exponent + *weights.exponent;
  const int64_t channels = c.output.shape.last();
  const int64_t per_channel = round_up<int64_t>(channels * int64_t{sizeof(int64_t)}, 64);
  auto* aligned = reinterpret_cast<int32_t*>(c.workspace);
  auto* shifts = reinterpret_cast<int32_t*>(c.workspace + per_channel);
  auto* maxima = reinterpret_cast<uint32_t*>(c.workspace + 2 * per_channel);
  const bool stays_wide = c.output.type == DataType::kInt32;
  auto* wide = stays_wide ? c.output.as<int32_t>()
                          : reinterpret_cast<int32_t*>(c.workspace + 3 * per_channel);
  const kernels::WideStatistics found = c.kernels->convolution->forward(
      {shape_of(c, input.shape, c.output.shape), input.as<int8_t>(), weights.as<int8_t>(),
       align_bias(c, sum_exponent, aligned), wide},
      c.kernel);
  if (stays_wide) {
    set_exponent(c, c.output, sum_exponent);
    return;
  }
  if (c.exponent_mode == ExponentMode::kCalibrate) calibrate(c, wide, sum_exponent);
  if (c.output.guarded != nullptr && *c.output.guarded != 0) {
    narrow_channels(c, wide, sum_exponent, shifts, maxima);
    return;
  }
  const int shift = choose_shift8(c, c.output, found.maximum, sum_exponent);
  const kernels::Requantise narrow{wide, shift, c.output.as<int8_t>()};
  *c.output.saturated +=
      kernels::parallel_statistics(*c.kernel.pool, c.output.count(), kGrain,
                                   [&](int64_t begin, int64_t end) {
                                     return c.kernels->elementwise->requantise(narrow, begin, end);
                                   })
          .saturated;
}

void backward_input(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Tensor& weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = shape_of(c, grad_input.shape, c.grad_output.shape);
  narrow_gradient(c, grad_input, *c.grad_output.exponent + *weights.exponent, [&](int shift) {
    return c.kernels->convolution->grad_input(
        {shape, c.grad_output.as<int16_t>(), weights.as<int8_t>(), shift, grad_input.as<int16_t>()},
        c.kernel);
  });
}

// Bias: exact sums of the gradient over all rows, rounded once into the accumulator.
void backward_bias(const OpContext& c) {
  const Tensor& gradient = c.parameters[1].gradient;
  const int64_t channels = gradient.count(), rows = c.grad_output.count() / channels;
  auto* partial = reinterpret_cast<int64_t*>(c.workspace);
  std::fill_n(partial, kernels::kMaximumParts * channels, 0);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, std::max<int64_t>(1, kGrain / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        c.kernels->elementwise->sum_rows(c.grad_output.as<int16_t>(), channels, begin, end,
                                         partial + part * channels);
      });
  for (int64_t o = 0; o < channels; ++o) {
    int64_t sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += partial[part * channels + o];
    int64_t& total = gradient.as<int64_t>()[o];
    total = accumulate(total, rescale_rne(sum, *gradient.exponent - *c.grad_output.exponent));
  }
}

void backward_weights(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Tensor& gradient = c.parameters[0].gradient;
  const int sum_exponent = *input.exponent + *c.grad_output.exponent;
  c.kernels->convolution->grad_weights(
      {shape_of(c, input.shape, c.grad_output.shape), input.as<int8_t>(),
       c.grad_output.as<int16_t>(), *gradient.exponent - sum_exponent, gradient.as<int64_t>()},
      c.kernel);
  if (c.parameters.size() > 1) backward_bias(c);
}

constexpr OpTraits kTraits = {.may_leave_wide = true, .weights_read_input = true};

}  // namespace

const Op kConvolution = {.name = "convolution",
                         .traits = kTraits,
                         .infer_shape = infer_convolution,
                         .parameters = parameters,
                         .memory = memory,
                         .multiply_adds = multiply_adds,
                         .check = check,
                         .forward = forward,
                         .backward_input = backward_input,
                         .backward_weights = backward_weights};

const Op kLinear = {.name = "linear",
                    .traits = kTraits,
                    .infer_shape = infer_linear,
                    .parameters = parameters,
                    .memory = memory,
                    .multiply_adds = multiply_adds,
                    .check = check,
                    .forward = forward,
                    .backward_input = backward_input,
                    .backward_weights = backward_weights};

}  // namespace mantissa::ops
