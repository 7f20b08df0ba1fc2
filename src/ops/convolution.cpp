// Convolution (strided, padded, grouped, dilated) and linear (a 1x1 convolution on 1x1 images):
// weights [O, KH, KW, C], optional bias.
#include <algorithm>
#include <climits>

#include "kernels/convolution_choice.h"
#include "kernels/convolution_wide_gradient.h"
#include "kernels/parallel_ranges.h"
#include "numerics/exponent.h"
#include "ops/convolution_shape.h"
#include "ops/convolution_wide.h"
#include "ops/fp32/fp32.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/sum_exponents.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;

constexpr int64_t kGrain = 16384;  // elements below which a thread is not worth waking
constexpr int64_t kBiasLimit = int64_t{1} << 30;

Result<Shape> infer_convolution(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank != 3) return invalid_input("wants one [H, W, C] input");
  const int64_t kernel = attributes.get("kernel", 3), stride = attributes.get("stride", 1);
  const int64_t padding = attributes.get("padding", 0), channels = attributes.get("channels", 0);
  const int64_t groups = attributes.get("groups", 1), dilation = attributes.get("dilation", 1);
  if (kernel < 1 || stride < 1 || padding < 0 || channels < 1 || dilation < 1) {
    return invalid_input("wants kernel, stride, dilation, channels >= 1 and padding >= 0");
  }
  if (groups < 1 || channels % groups != 0 || inputs[0].last() % groups != 0) {
    return invalid_input("wants groups that divide " + std::to_string(inputs[0].last()) +
                         " input and " + std::to_string(channels) + " output channels");
  }
  const int64_t height = inputs[0][0] + 2 * padding, width = inputs[0][1] + 2 * padding;
  // Divided, not multiplied: either may be huge.
  const bool fits = height >= kernel && width >= kernel &&
                    (kernel == 1 || dilation <= (std::min(height, width) - 1) / (kernel - 1));
  if (!fits) {
    return invalid_input("a kernel of " + std::to_string(kernel) +
                         (dilation > 1 ? " with dilation " + std::to_string(dilation) : "") +
                         " does not fit an image of " + to_string(inputs[0]));
  }
  const int64_t reach = (kernel - 1) * dilation;  // from the first tap to the last
  return Shape{(height - 1 - reach) / stride + 1, (width - 1 - reach) / stride + 1, channels};
}

Result<Shape> infer_linear(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank != 1) return invalid_input("wants one [C] input");
  if (attributes.get("channels", 0) < 1) return invalid_input("wants channels >= 1");
  return Shape{attributes.get("channels", 0)};
}

std::vector<ParameterSpec> parameters(const Attributes& attributes, std::span<const Shape> inputs) {
  const int64_t kernel = attributes.get("kernel", 3), channels = attributes.get("channels", 0);
  const int64_t in = inputs[0].last() / attributes.get("groups", 1);
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

// Images whose wide results are held at once. Exact exponents hold the batch; where one pass is the
// rule, what needs two computes its sums twice, a few images at a time.
int64_t images_per_chunk(const ConvolutionShape& shape, ExponentMode mode) {
  if (mode == ExponentMode::kExact || mode == ExponentMode::kCalibrate) return shape.batch;
  constexpr int64_t kChunkElements = 256 * 1024;
  return std::clamp<int64_t>(kChunkElements * shape.batch / shape.output_count(), 1, shape.batch);
}

OpMemory memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = convolution_shape(s);
  const kernels::KernelTable& table = *planning.kernels;
  const int threads = planning.threads;
  OpMemory memory;
  memory.forward.workspace_bytes = 3 * channel_bytes(shape.out_channels);
  memory.forward.scratch_bytes =
      static_cast<int64_t>(kernels::convolution_forward_scratch_bytes(table, shape, threads));
  if (s.output_type == DataType::kInt8) {
    // Wide results of a chunk, and what its kernel needs: other batches are cut otherwise.
    ConvolutionShape chunk = shape;
    const int64_t images = images_per_chunk(shape, s.exponent_mode);
    for (const int64_t batch : {images, shape.batch % images}) {
      if (batch == 0) continue;
      chunk.batch = batch;
      memory.forward.scratch_bytes = std::max(
          memory.forward.scratch_bytes,
          static_cast<int64_t>(kernels::convolution_forward_scratch_bytes(table, chunk, threads)));
    }
    memory.forward.scratch_bytes =
        std::max(memory.forward.scratch_bytes, threads * channel_bytes(shape.out_channels));
    chunk.batch = images;
    memory.forward.workspace_bytes += chunk.output_count() * int64_t{sizeof(int32_t)};
  }
  memory.backward_input.scratch_bytes = static_cast<int64_t>(
      kernels::convolution_grad_input_scratch_bytes(table, shape, s.format.gradient_bits, threads));
  if (!s.format.tensor_blocks) {
    memory.backward_input.workspace_bytes = align_gradient_bytes(
        shape.output_count() / shape.out_channels, shape.out_channels, s.format.gradient_bits);
  }
  memory.backward_weights.scratch_bytes =
      static_cast<int64_t>(kernels::convolution_grad_weights_scratch_bytes(
          table, shape, s.format.wide_gradient_bits(), threads));
  memory.backward_weights.workspace_bytes =
      kernels::kMaximumParts * channel_bytes(shape.out_channels);
  plan_wide_convolution(s, planning, memory);
  return memory;
}

int64_t multiply_adds(const OpShapes& s) { return convolution_shape(s).multiply_adds(); }

Status check(const OpShapes& s) {
  const ConvolutionShape shape = convolution_shape(s);
  const int64_t taps = shape.kernel_height * shape.kernel_width;
  const int64_t depth = taps * std::max(shape.group_in_channels(), shape.group_out_channels());
  if (depth > kernels::kMaximumForwardDepth) {
    return invalid_input("sums of " + std::to_string(depth) + " products are not exact in int32; " +
                         "at most " + std::to_string(kernels::kMaximumForwardDepth) + " are");
  }
  const int64_t pixels = shape.batch * shape.out_height * shape.out_width;
  if (is_training(s.exponent_mode) && s.format.wide_gradient_bits() > 16 &&
      pixels > kernels::kMaximumWideGradientPixels) {
    return invalid_input("sums of " + std::to_string(pixels) +
                         " gradients of gw=32 are not exact in int64; at most " +
                         std::to_string(kernels::kMaximumWideGradientPixels) +
                         " are: choose a smaller micro-batch");
  }
  return {};
}

// The bias at the sums' exponents, rounded to nearest even; null without a bias.
const int32_t* align_bias(const OpContext& c, const SumExponents& sums, int32_t* aligned) {
  if (c.parameters.size() < 2) return nullptr;
  const Tensor& bias = c.parameters[1].mantissa;
  for (int64_t o = 0; o < bias.count(); ++o) {
    const int64_t mantissa = bias.bits <= 8 ? bias.as<int8_t>()[o] : bias.as<int16_t>()[o];
    const int64_t wide = rescale_rne(mantissa, sums.of(o) - *bias.exponent);
    aligned[o] = static_cast<int32_t>(saturate(wide, kBiasLimit));
    *c.output.saturated += aligned[o] != wide;
  }
  return aligned;
}

// Parts of the workspace: per-channel arrays, then the wide results of a chunk of images.
struct Workspace {
  int32_t* bias;     // aligned to the sum's exponent
  int32_t* shifts;   // of channels that differ
  uint32_t* maxima;  // of channels that differ
  int32_t* wide;
  Workspace(std::byte* base, int64_t channels)
      : bias(reinterpret_cast<int32_t*>(base)),
        shifts(reinterpret_cast<int32_t*>(base + channel_bytes(channels))),
        maxima(reinterpret_cast<uint32_t*>(base + 2 * channel_bytes(channels))),
        wide(reinterpret_cast<int32_t*>(base + 3 * channel_bytes(channels))) {}
};

// Calls visit(first, args) for each chunk of images, with args for these images.
template <typename Visit>
void for_each_chunk(const OpContext& c, const kernels::ConvolutionForward& whole, Visit&& visit) {
  const ConvolutionShape& s = whole.shape;
  const int64_t images = images_per_chunk(s, c.exponent_mode);
  for (int64_t first = 0; first < s.batch; first += images) {
    kernels::ConvolutionForward chunk = whole;
    chunk.shape.batch = std::min(images, s.batch - first);
    chunk.input += first * (s.input_count() / s.batch);
    visit(first, chunk);
  }
}

// Whether sums or outputs of channels differ in their exponents, so that shifts do.
bool differ(const OpContext& c, const SumExponents& sums) {
  return is_guarded(c.output) || sums.by_channel();
}

void calibrate(const OpContext& c, const int32_t* wide, const SumExponents& sums) {
  const int64_t channels = c.output.shape.last();
  for (int64_t i = 0; i < c.output.count(); ++i) {
    const int64_t histogram = is_guarded(c.output) ? i % channels : 0;
    count_wide(c.histogram + histogram * kHistogramBins, wide[i], sums.of(i % channels),
               c.output.bits);
  }
}

// The exponent that holds all channels; for guarded outputs also one for each, as an offset from
// it. Without a guard channels of zeros have no say.
void choose_exponents(const OpContext& c, const uint32_t* maxima, const SumExponents& sums) {
  const int64_t channels = c.output.shape.last();
  const bool guarded = is_guarded(c.output);
  const auto wanted = [&](int64_t o) { return sums.of(o) + exact_shift(maxima[o], c.output.bits); };
  int largest = INT_MIN;
  for (int64_t o = 0; o < channels; ++o) {
    if (guarded || maxima[o] != 0) largest = std::max(largest, wanted(o));
  }
  set_exponent(c, c.output, largest == INT_MIN ? zero_exponent(c.output.bits) : largest);
  for (int64_t o = 0; o < channels && guarded; ++o) {
    c.output.channel_exponent[o] =
        static_cast<int8_t>(std::max(wanted(o) - largest, -kMostChannelShift));
  }
}

// From the sums' exponents to the output's. The freezing leaves none below those of the sums.
void choose_channel_shifts(const OpContext& c, const Workspace& work, const SumExponents& sums) {
  for (int64_t o = 0; o < c.output.shape.last(); ++o) {
    const int offset = is_guarded(c.output) ? c.output.channel_exponent[o] : 0;
    work.shifts[o] = std::clamp(*c.output.exponent + offset - sums.of(o), 0, kMostChannelShift);
  }
}

// Wide results of some images to 8 bits, by one shift or, if channels differ, by each one's.
void requantise(const OpContext& c, const Workspace& work, bool channels_differ, int shift,
                int64_t first, int64_t count) {
  const auto& kernel = *c.kernels->elementwise;
  const int64_t channels = c.output.shape.last();
  int8_t* out = c.output.as<int8_t>() + first;
  const auto range = [&](int64_t begin, int64_t end) -> kernels::WideStatistics {
    if (!channels_differ)
      return kernel.requantise({work.wide, shift, out, c.output.bits}, begin, end);
    return {0, kernel.requantise_channels({work.wide, work.shifts, channels, out, c.output.bits},
                                          begin, end)};
  };
  const int64_t unit = channels_differ ? channels : 1;
  *c.output.saturated += kernels::parallel_statistics(*c.kernel.pool, count / unit,
                                                      std::max<int64_t>(1, kGrain / unit), range)
                             .saturated;
}

// Takes the wide results of some images into the channels' maxima. Those of parts are in the
// scratch, which the sums no longer need.
void add_maxima(const OpContext& c, const Workspace& work, int64_t count) {
  const int64_t channels = c.output.shape.last();
  const auto of_part = [&](int64_t part) {
    return reinterpret_cast<uint32_t*>(c.kernel.scratch.data() + part * channel_bytes(channels));
  };
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, count / channels, std::max<int64_t>(1, kGrain / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        std::fill_n(of_part(part), channels, 0u);
        c.kernels->elementwise->channel_maxima(work.wide, channels, begin, end, of_part(part));
      });
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t o = 0; o < channels; ++o) {
      work.maxima[o] = std::max(work.maxima[o], of_part(part)[o]);
    }
  }
}

// Two passes over wide results: the first for what decides the exponent, the second to write. Where
// they are held in chunks, the second computes them anew.
void forward_in_two_passes(const OpContext& c, const Workspace& work,
                           const kernels::ConvolutionForward& whole, const SumExponents& sums) {
  const int64_t channels = c.output.shape.last(), per_image = c.output.count() / c.output.shape[0];
  const bool by_channel = differ(c, sums), fixed = c.exponent_mode == ExponentMode::kFixed;
  const bool one_chunk = images_per_chunk(whole.shape, c.exponent_mode) == whole.shape.batch;
  uint64_t maximum = 0;
  std::fill_n(work.maxima, by_channel ? channels : 0, 0u);
  if (!fixed) {
    for_each_chunk(c, whole, [&](int64_t, const kernels::ConvolutionForward& chunk) {
      maximum =
          std::max(maximum, kernels::convolution_forward(*c.kernels, chunk, c.kernel).maximum);
      if (by_channel) add_maxima(c, work, chunk.shape.output_count());
    });
  }
  if (c.exponent_mode == ExponentMode::kCalibrate) calibrate(c, work.wide, sums);
  int shift = 0;
  if (by_channel) {
    if (!fixed) choose_exponents(c, work.maxima, sums);
    choose_channel_shifts(c, work, sums);
  } else {
    shift = choose_shift(c, c.output, maximum, sums.largest());
  }
  for_each_chunk(c, whole, [&](int64_t first, const kernels::ConvolutionForward& chunk) {
    if (fixed || !one_chunk) kernels::convolution_forward(*c.kernels, chunk, c.kernel);
    requantise(c, work, by_channel, shift, first * per_image, chunk.shape.output_count());
  });
}

// As forward_in_two_passes, for channels that differ in their sums only: narrowed to the exponent
// used last as they are computed, and again where that was wrong.
void forward_channels_in_one_pass(const OpContext& c, const Workspace& work,
                                  const kernels::ConvolutionForward& whole,
                                  const SumExponents& sums) {
  const int64_t channels = c.output.shape.last(), per_image = c.output.count() / c.output.shape[0];
  const auto pass = [&] {
    choose_channel_shifts(c, work, sums);
    std::fill_n(work.maxima, channels, 0u);
    for_each_chunk(c, whole, [&](int64_t first, const kernels::ConvolutionForward& chunk) {
      kernels::convolution_forward(*c.kernels, chunk, c.kernel);
      add_maxima(c, work, chunk.shape.output_count());
      requantise(c, work, true, 0, first * per_image, chunk.shape.output_count());
    });
  };
  const int predicted = *c.output.exponent;
  const int64_t saturated = *c.output.saturated;
  pass();
  choose_exponents(c, work.maxima, sums);
  if (*c.output.exponent == predicted) return;
  ++c.totals->mispredictions;
  *c.output.saturated = saturated;
  pass();
}

// Whether the kernel can narrow the sums as it computes them.
bool fits_one_pass(const OpContext& c, const SumExponents& sums) {
  if (differ(c, sums)) return false;
  if (c.exponent_mode == ExponentMode::kPredicted) return true;
  const int shift = *c.output.exponent - sums.largest();
  return c.exponent_mode == ExponentMode::kFixed && shift >= 0 &&
         shift <= kernels::kMaximumForwardShift;
}

void forward(const OpContext& c) {
  if (is_wide_forward(c)) return wide_forward(c);
  const Tensor& input = c.inputs[0];
  const Tensor& weights = c.parameters[0].mantissa;
  const SumExponents sums(input, weights);
  const Workspace work(c.workspace, c.output.shape.last());
  kernels::ConvolutionForward args{.shape = convolution_shape(c, input.shape, c.output.shape),
                                   .input = input.as<int8_t>(),
                                   .weights = weights.as<int8_t>(),
                                   .bias = align_bias(c, sums, work.bias)};
  if (c.output.type == DataType::kInt32) {
    args.wide = c.output.as<int32_t>();
    kernels::convolution_forward(*c.kernels, args, c.kernel);
    set_exponent(c, c.output, align_sums(c, sums, args.wide));
    return;
  }
  if (!fits_one_pass(c, sums)) {
    args.wide = work.wide;
    const bool predicts = c.exponent_mode == ExponentMode::kPredicted && !is_guarded(c.output);
    return predicts ? forward_channels_in_one_pass(c, work, args, sums)
                    : forward_in_two_passes(c, work, args, sums);
  }
  args.narrow = c.output.as<int8_t>();
  args.bits = c.output.bits;
  narrow_in_one_pass(c, sums.largest(), [&](int shift) {
    args.shift = shift;
    return kernels::convolution_forward(*c.kernels, args, c.kernel);
  });
}

void backward_input(const OpContext& c) {
  if (is_wide_grad_input(c)) return wide_backward_input(c);
  const Tensor& grad_input = c.grad_inputs[0];
  const Tensor& weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, grad_input.shape, c.grad_output.shape);
  const kernels::ConstGradient gradient = align_gradient(c, weights);
  const int wide_exponent = *c.grad_output.exponent + weights.largest_exponent();
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift) {
    return kernels::convolution_grad_input(
        *c.kernels, {shape, gradient, weights.as<int8_t>(), shift, gradient_of(grad_input)},
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
        c.kernels->elementwise->sum_rows(gradient_of(c.grad_output), channels, begin, end,
                                         partial + part * channels);
      });
  for (int64_t o = 0; o < channels; ++o) {
    int64_t sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += partial[part * channels + o];
    int64_t& total = gradient.as<int64_t>()[o];
    total = accumulate(total, rescale_rne(sum, *gradient.exponent - *c.grad_output.exponent));
  }
}

void grad_weights(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Tensor& gradient = c.parameters[0].gradient;
  const int sum_exponent = *input.exponent + *c.grad_output.exponent;
  kernels::convolution_grad_weights(
      *c.kernels,
      {convolution_shape(c, input.shape, c.grad_output.shape), input.as<int8_t>(),
       gradient_of(c.grad_output), *gradient.exponent - sum_exponent, gradient.as<int64_t>()},
      c.kernel);
}

void backward_weights(const OpContext& c) {
  if (is_wide_grad_weights(c)) {
    wide_backward_weights(c);
  } else {
    grad_weights(c);
  }
  if (c.parameters.size() > 1) backward_bias(c);
}

const char* kernel(const OpContext& c) {
  const Tensor& output = c.grad_output.empty() ? c.output : c.grad_output;
  return kernels::convolution_kernel_name(*c.kernels,
                                          convolution_shape(c, c.inputs[0].shape, output.shape));
}

constexpr OpTraits kTraits = {
    .may_leave_wide = true, .weights_read_input = true, .weights_read_wide_gradient = true};

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
                         .backward_weights = backward_weights,
                         .kernel = kernel,
                         .fp32 = &fp32::kConvolution};

const Op kLinear = {.name = "linear",
                    .traits = kTraits,
                    .infer_shape = infer_linear,
                    .parameters = parameters,
                    .memory = memory,
                    .multiply_adds = multiply_adds,
                    .check = check,
                    .forward = forward,
                    .backward_input = backward_input,
                    .backward_weights = backward_weights,
                    .kernel = kernel,
                    .fp32 = &fp32::kConvolution};

}  // namespace mantissa::ops
