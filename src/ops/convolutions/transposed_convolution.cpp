// Transposed convolution: the gradient of a convolution's input, of a value. Its own gradients are
// the convolution and its gradient of the weights. The kernels are the convolution's, with the
// roles of its operands exchanged.
//
// Weights are [O, KH, KW, C / G], so that an output channel's lie together, as everywhere.
#include <algorithm>

#include "kernels/convolution/pieces.h"
#include "kernels/wide_convolution/wide_convolution.h"
#include "ops/convolutions/channel_sums.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/convolution_sums.h"
#include "ops/convolutions/sum_exponents.h"
#include "ops/convolutions/transposed_shape.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionPass;
using kernels::ConvolutionShape;
using kernels::WideChoice;

constexpr int64_t kLargestWindow = 1 << 20;
constexpr int kMostInputBits = 16;  // of what the kernels take as a convolution's input
constexpr AttributeSpec kTransposedSchema[] = {
    required_whole<&TransposedAttributes::channels>("channels", 1, int64_t{1} << 31),
    whole<&TransposedAttributes::kernel>("kernel", 2, 1, kLargestWindow),
    whole<&TransposedAttributes::stride>("stride", 2, 1, kLargestWindow),
    whole<&TransposedAttributes::padding>("padding", 0, 0, kLargestWindow),
    whole<&TransposedAttributes::output_padding>("output_padding", 0, 0, kLargestWindow),
    flag<&TransposedAttributes::bias>("bias", true),
    whole<&TransposedAttributes::kernel_width>("kernel_width", 0, 0, kLargestWindow),
    whole<&TransposedAttributes::stride_width>("stride_width", 0, 0, kLargestWindow),
    whole<&TransposedAttributes::padding_width>("padding_width", -1, -1, kLargestWindow),
    whole<&TransposedAttributes::output_padding_width>("output_padding_width", -1, -1,
                                                       kLargestWindow),
    whole<&TransposedAttributes::groups>("groups", 1, 1, int64_t{1} << 31)};

Status check_axis(const TransposedAxis& axis, int64_t size) {
  if (axis.output_padding >= axis.stride && axis.output_padding > 0) {
    return invalid_input("wants an output_padding below its stride, not " +
                         std::to_string(axis.output_padding));
  }
  if (axis.padding >= axis.kernel) {
    return invalid_input("wants a padding below its kernel, not " + std::to_string(axis.padding));
  }
  if (size <= kLargestWindow && axis.results(size) >= 1) return {};
  return invalid_input("leaves nothing of " + std::to_string(size) + " inputs along an axis");
}

Result<Shape> infer_transposed(const Attributes& given, std::span<const Shape> inputs) {
  const auto& a = given.as<TransposedAttributes>();
  if (inputs.size() != 1 || !is_of_images(inputs[0])) {
    return invalid_input("wants one [H, W, C], [T, C] or [D, H, W, C] input");
  }
  const bool of_sequence = is_sequence(inputs[0]);
  const bool has_width = a.kernel_width > 0 || a.stride_width > 0 || a.padding_width >= 0 ||
                         a.output_padding_width >= 0;
  if (of_sequence && has_width) {
    return invalid_input("a sequence [T, C] has no width: kernel, stride and padding are of T");
  }
  const Shape image = as_image(inputs[0]);
  const auto [vertical, horizontal] = transposed_axes(a, of_sequence);
  MANTISSA_RETURN_IF_ERROR(check_axis(vertical, image[0]));
  MANTISSA_RETURN_IF_ERROR(check_axis(horizontal, image[1]));
  if (a.channels % a.groups != 0 || image.last() % a.groups != 0) {
    return invalid_input("wants groups that divide " + std::to_string(image.last()) +
                         " input and " + std::to_string(a.channels) + " output channels");
  }
  const Shape weights{a.channels, vertical.kernel, horizontal.kernel, image.last() / a.groups};
  if (!element_count(weights)) return invalid_input("weights " + to_string(weights) + " are too many");
  return like_input(Shape{vertical.results(image[0]), horizontal.results(image[1]), a.channels},
                    inputs[0]);
}

std::vector<Parameter> transposed_parameters(const Attributes& given,
                                             std::span<const Shape> inputs) {
  const auto& a = given.as<TransposedAttributes>();
  const auto [vertical, horizontal] = transposed_axes(a, is_sequence(inputs[0]));
  // As many inputs reach a result as the stride leaves of the taps.
  const auto met = [](const TransposedAxis& axis) { return divide_up(axis.kernel, axis.stride); };
  const int64_t in = inputs[0].last() / a.groups;
  std::vector<Parameter> parameters = {
      {.name = "weights",
       .shape = Shape{a.channels, vertical.kernel, horizontal.kernel, in},
       .initialiser = Initialiser::kHeUniform,
       .fan_in = met(vertical) * met(horizontal) * in,
       .decays = true}};
  if (a.bias) {
    parameters.push_back({.name = "bias", .shape = Shape{a.channels}, .storage = Storage::kBias});
  }
  return parameters;
}

ConvolutionShape underlying(const OpShapes& s) {
  return underlying_shape(s.attributes->as<TransposedAttributes>(), s.inputs[0], s.output);
}
ConvolutionShape underlying(const OpContext& c, const Shape& input, const Shape& output) {
  return underlying_shape(c.attributes<TransposedAttributes>(), input, output);
}

ConvolutionShape with_batch(ConvolutionShape shape, int64_t batch) {
  shape.batch = batch;
  return shape;
}

// Images whose sums are there at once.
int64_t forward_images(const ConvolutionShape& s) {
  constexpr int64_t kElements = 128 * 1024;
  return std::clamp<int64_t>(kElements * s.batch / s.input_count(), 1, s.batch);
}

bool is_of_bytes(int input_bits, int weight_bits) { return input_bits <= 8 && weight_bits <= 8; }

// Parts of the forward pass's workspace.
struct ForwardWorkspace {
  int64_t* bias;      // aligned to the sums' exponents
  int32_t* raised;    // by channel: how far its exponent is above the least
  int8_t* weights;    // [C, KH, KW, O / G]
  int32_t* sums;      // of some images

  ForwardWorkspace(std::byte* base, const ConvolutionShape& s)
      : bias(reinterpret_cast<int64_t*>(base)),
        raised(reinterpret_cast<int32_t*>(base + channel_bytes(s.in_channels))),
        weights(reinterpret_cast<int8_t*>(base + 2 * channel_bytes(s.in_channels))),
        sums(reinterpret_cast<int32_t*>(base + 2 * channel_bytes(s.in_channels) +
                                        round_up<int64_t>(s.weights_count(), 64))) {}
  static int64_t bytes(const ConvolutionShape& s) {
    return 2 * channel_bytes(s.in_channels) + round_up<int64_t>(s.weights_count(), 64) +
           forward_images(s) * (s.input_count() / s.batch) * int64_t{sizeof(int32_t)};
  }
};

struct ForwardKernels {
  ConvolutionShape shape;
  PieceChoices<ConvolutionChoice> chunks;
};

struct GradInputKernels {
  ConvolutionShape shape;
  PieceChoices<WideChoice> chunks;
};

struct GradWeightsKernels {
  ConvolutionShape shape;
  ConvolutionChoice planes;
};

kernels::ConvolutionWork forward_work(const ConvolutionShape& shape, int64_t images) {
  return {ConvolutionPass::kGradInput, with_batch(shape, images), 8, true};
}

Prepared prepare_transposed(const OpContext& c) {
  const ConvolutionShape shape = underlying(c, c.inputs[0].shape, c.output().shape);
  return prepared(ForwardKernels{shape,
                                 {shape.batch, forward_images(shape), [&](int64_t images) {
                                    return choose(c, forward_work(shape, images));
                                  }}});
}

Prepared prepare_transposed_input(const OpContext& c) {
  const ConvolutionShape shape = underlying(c, c.grad_inputs[0].shape, c.grad_output().shape);
  const int bits = c.grad_output().bits, weight_bits = c.parameters[0].mantissa.bits;
  return prepared(GradInputKernels{
      shape,
      {shape.batch, kernels::wide_images_per_chunk(shape), [&](int64_t images) {
         return kernels::choose_wide_forward(*c.kernel.table, with_batch(shape, images), bits,
                                             weight_bits);
       }}});
}

Prepared prepare_transposed_weights(const OpContext& c) {
  const ConvolutionShape shape = underlying(c, c.inputs[0].shape, c.grad_output().shape);
  return prepared(GradWeightsKernels{
      shape, kernels::choose_wide_grad_weights(*c.kernel.table, shape,
                                               std::min(c.grad_output().bits, kMostInputBits),
                                               c.inputs[0].bits)});
}

// The weights as the kernels want them.
template <typename T>
void exchange(const OpContext& c, const ConvolutionShape& s, T* to) {
  exchange_channels(c.parameters[0].mantissa.as<T>(), s.in_channels,
                    s.kernel_height * s.kernel_width, s.out_channels, s.groups, to);
}

// The part of a tensor that holds some images, as rows of channels.
Tensor images_of(const Tensor& whole, int64_t first, int64_t count) {
  const int64_t image = whole.count() / as_images(whole.shape)[0];
  Tensor part = whole;
  part.shape = Shape{count * image / whole.shape.last(), whole.shape.last()};
  part.data = whole.as<std::byte>() + first * image * element_bytes(whole.type);
  return part;
}

// One sum by its definition, for mantissas of more than 8 bits.
int64_t defined_sum(const ConvolutionShape& s, const Mantissas& in, const Mantissas& weights,
                    int64_t i) {
  const int64_t o = i % s.in_channels, x = i / s.in_channels % s.in_width;
  const int64_t y = i / s.in_channels / s.in_width % s.in_height;
  const int64_t n = i / s.in_channels / s.in_width / s.in_height;
  const int64_t channels = s.group_out_channels();
  const int64_t first = o / s.group_in_channels() * channels;
  int64_t sum = 0;
  for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
    const int64_t iy = y + s.padding_height - ky;
    if (iy < 0 || iy % s.stride_height != 0 || iy / s.stride_height >= s.out_height) continue;
    for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
      const int64_t ix = x + s.padding_width - kx;
      if (ix < 0 || ix % s.stride_width != 0 || ix / s.stride_width >= s.out_width) continue;
      const int64_t at =
          ((n * s.out_height + iy / s.stride_height) * s.out_width + ix / s.stride_width) *
              s.out_channels +
          first;
      const int64_t row = ((o * s.kernel_height + ky) * s.kernel_width + kx) * channels;
      for (int64_t c = 0; c < channels; ++c) sum += in[at + c] * weights[row + c];
    }
  }
  return sum;
}

void transposed_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const auto& choices = choices_of<ForwardKernels>(c);
  const ConvolutionShape& shape = choices.shape;
  const PieceChoices<ConvolutionChoice>& chunks = choices.chunks;
  const ForwardWorkspace work(c.memory.workspace, shape);
  const int extra = std::max(0, input.bits - 8) + std::max(0, weights.bits - 8);
  const SumExponents exponents(input, weights);
  const int64_t* bias =
      align_bias(c, exponents, int64_t{1} << (30 + extra), work.bias);
  const int least = *input.exponent + least_channel_exponent(weights, work.raised);
  const auto wide = [&](int64_t sum, int64_t channel) {
    const int64_t biased = sum + (bias == nullptr ? 0 : bias[channel]);
    return rescale_rne(biased, -work.raised[channel]);
  };
  if (!is_of_bytes(input.bits, weights.bits)) {
    const Mantissas in(input), of_weights(weights);
    return write_wide(c, least, [&](int64_t i) {
      return wide(defined_sum(shape, in, of_weights, i), i % shape.in_channels);
    });
  }
  exchange(c, shape, work.weights);
  const auto for_each_chunk = [&](const auto& visit) {
    for (int64_t first = 0; first < shape.batch; first += chunks.piece) {
      const int64_t images = std::min(chunks.piece, shape.batch - first);
      const Tensor in = images_of(input, first, images), out = images_of(c.output(), first, images);
      chunks.of(images).grad_input({.shape = with_batch(shape, images),
                                    .grad_output = {in.data, 8},
                                    .weights = work.weights,
                                    .grad_input = {nullptr, 8},
                                    .sums = work.sums},
                                   c.kernel);
      visit(out);
    }
  };
  if (counts_values(c)) {
    for_each_chunk([&](const Tensor& out) {
      for (int64_t i = 0; i < out.count(); ++i) {
        count_wide(c.output().histogram, wide(work.sums[i], i % shape.in_channels), least,
                   c.output());
      }
    });
  }
  narrow_by_passes(
      c, least,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        kernels::WideStatistics found;
        const auto narrow = [&](const auto& wide_of) {
          for_each_chunk([&](const Tensor& out) {
            found += narrow_elements(c, out, writes, shift, wide_of, counts);
          });
        };
        // Most weights have one exponent: a loop without a shift takes a third of the time.
        if (!exponents.by_channel() && bias != nullptr) {
          narrow([sums = work.sums, bias](int64_t i, int64_t channel) {
            return sums[i] + bias[channel];
          });
        } else {
          narrow([&](int64_t i, int64_t channel) { return wide(work.sums[i], channel); });
        }
        return found;
      },
      64);
}

// Parts of the workspace of grad_input: the gradient with aligned channels, the weights, the sums.
struct BackwardWorkspace {
  int64_t gradient, weights, sums;

  BackwardWorkspace(const ConvolutionShape& s, int gradient_bits, int weight_bits)
      : gradient(round_up<int64_t>(
            align_gradient_bytes(s.input_count() / s.in_channels, s.in_channels, gradient_bits),
            64)),
        weights(round_up<int64_t>(s.weights_count() * kernels::gradient_bytes(weight_bits), 64)),
        sums(kernels::wide_images_per_chunk(s) * (s.output_count() / s.batch) *
             int64_t{sizeof(int64_t)}) {}
  int64_t bytes() const { return gradient + weights + sums; }
};

void transposed_backward_input(const OpContext& c) {
  const Tensor &grad_input = c.grad_inputs[0], &weights = c.parameters[0].mantissa;
  const auto& choices = choices_of<GradInputKernels>(c);
  const ConvolutionShape& shape = choices.shape;
  const PieceChoices<WideChoice>& chunks = choices.chunks;
  const BackwardWorkspace parts(shape, c.grad_output().bits, weights.bits);
  std::byte* const exchanged = c.memory.workspace + parts.gradient;
  auto* const sums = reinterpret_cast<int64_t*>(exchanged + parts.weights);
  const kernels::ConstMantissaSpan gradient = align_gradient(c, weights);
  kernels::with_value_type(weights.bits, [&](auto type) {
    exchange(c, shape, reinterpret_cast<decltype(type)*>(exchanged));
  });
  Tensor aligned = c.grad_output();
  aligned.data = const_cast<void*>(gradient.data);
  const int wide_exponent = *c.grad_output().exponent + weights.largest_exponent();
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    kernels::WideStatistics found;
    for (int64_t first = 0; first < shape.batch; first += chunks.piece) {
      const int64_t images = std::min(chunks.piece, shape.batch - first);
      kernels::wide_forward(
          chunks.of(images), *c.kernel.table,
          {.shape = with_batch(shape, images),
           .input = {images_of(aligned, first, images).data, c.grad_output().bits},
           .weights = {exchanged, weights.bits},
           .sums = sums},
          c.kernel);
      found += narrow_wide(c, sums, images_of(grad_input, first, images), true, shift, counts);
    }
    return found;
  });
}

// The sums of the underlying convolution's weights by their definition, rounded once.
void define_weight_sums(const ConvolutionShape& s, const Mantissas& in, const Mantissas& gradient,
                        int shift, int64_t* sums) {
  std::fill_n(sums, s.weights_count(), int64_t{0});
  for (int64_t place = 0; place < s.output_count() / s.out_channels; ++place) {
    const int64_t x = place % s.out_width, y = place / s.out_width % s.out_height;
    const int64_t n = place / s.out_width / s.out_height;
    for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
      const int64_t iy = y * s.stride_height + ky - s.padding_height;
      if (iy < 0 || iy >= s.in_height) continue;
      for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
        const int64_t ix = x * s.stride_width + kx - s.padding_width;
        if (ix < 0 || ix >= s.in_width) continue;
        const int64_t from = ((n * s.in_height + iy) * s.in_width + ix) * s.in_channels;
        for (int64_t o = 0; o < s.out_channels; ++o) {
          const int64_t channels = s.group_in_channels();
          const int64_t first = from + o / s.group_out_channels() * channels;
          int64_t* const to =
              sums + ((o * s.kernel_height + ky) * s.kernel_width + kx) * channels;
          const int64_t factor = gradient[place * s.out_channels + o];
          for (int64_t i = 0; i < channels; ++i) to[i] += factor * in[first + i];
        }
      }
    }
  }
  for (int64_t i = 0; i < s.weights_count(); ++i) sums[i] = rescale_rne(sums[i], shift);
}

// Sums like the underlying convolution's weights, rounded once, and then in our own order.
void transposed_backward_weights(const OpContext& c) {
  const Tensor &input = c.inputs[0], &gradient = c.parameters[0].gradient;
  if (c.parameters.size() > 1) backward_bias(c);
  if (gradient.empty()) return;
  const auto& choices = choices_of<GradWeightsKernels>(c);
  const ConvolutionShape& shape = choices.shape;
  const ConvolutionChoice& planes = choices.planes;
  auto* const sums = reinterpret_cast<int64_t*>(
      c.memory.workspace + kernels::kMaximumParts * channel_bytes(shape.in_channels));
  const int shift = *gradient.exponent - *input.exponent - *c.grad_output().exponent;
  if (c.grad_output().bits > kMostInputBits) {
    define_weight_sums(shape, Mantissas(c.grad_output()), Mantissas(input), shift, sums);
  } else {
    kernels::wide_grad_weights(
        planes, *c.kernel.table,
        {shape, value_of(c.grad_output()), value_of(input), shift, sums, false}, c.kernel);
  }
  auto* total = gradient.as<int64_t>();
  const int64_t taps = shape.kernel_height * shape.kernel_width;
  const int64_t outputs = shape.group_in_channels(), inputs = shape.group_out_channels();
  for (int64_t o = 0; o < shape.in_channels; ++o) {
    const int64_t* const of_group = sums + o / outputs * inputs * taps * outputs + o % outputs;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t i = 0; i < inputs; ++i, ++total) {
        *total = accumulate(*total, of_group[(i * taps + tap) * outputs]);
      }
    }
  }
}

OpMemory transposed_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = underlying(s);
  const kernels::KernelTable& table = *planning.kernels;
  const int threads = planning.threads;
  const int input_bits = s.input_bits(0);
  const int weight_bits = s.parameter_grids.empty() ? 8 : s.parameter_grids[0].bits;
  const int gradient_bits = s.gradient.bits;
  OpMemory memory;
  memory.forward.workspace_bytes = ForwardWorkspace::bytes(shape);
  memory.forward.scratch_bytes = kernels::most_of_pieces(
      shape.batch, forward_images(shape), [&](int64_t images) {
        return static_cast<int64_t>(choose_convolution(table.convolution,
                                                       forward_work(shape, images))
                                        .scratch_bytes(threads));
      });
  memory.grad_input.workspace_bytes =
      BackwardWorkspace(shape, gradient_bits, weight_bits).bytes();
  memory.grad_input.scratch_bytes = kernels::most_of_pieces(
      shape.batch, kernels::wide_images_per_chunk(shape), [&](int64_t images) {
        return static_cast<int64_t>(kernels::wide_forward_scratch_bytes(
            table, with_batch(shape, images), gradient_bits, weight_bits, threads));
      });
  memory.grad_weights.workspace_bytes =
      kernels::kMaximumParts * channel_bytes(shape.in_channels) +
      shape.weights_count() * int64_t{sizeof(int64_t)};
  for (const int bits : {8, kMostInputBits}) {
    const size_t bytes =
        kernels::wide_grad_weights_scratch_bytes(table, shape, bits, input_bits, threads);
    memory.grad_weights.scratch_bytes =
        std::max<int64_t>(memory.grad_weights.scratch_bytes, static_cast<int64_t>(bytes));
  }
  return memory;
}

Status check_transposed(const OpShapes& s) {
  const ConvolutionShape shape = underlying(s);
  const int64_t depth = shape.kernel_height * shape.kernel_width *
                        std::max(shape.group_in_channels(), shape.group_out_channels());
  if (depth <= kernels::kMaximumForwardDepth) return {};
  return invalid_input("sums of " + std::to_string(depth) + " products are not exact in int32; " +
                       "at most " + std::to_string(kernels::kMaximumForwardDepth) + " are");
}

int64_t transposed_multiply_adds(const OpShapes& s) { return underlying(s).multiply_adds(); }

const char* transposed_kernel(const OpContext& c) {
  const Tensor& output = c.grad_output().empty() ? c.output() : c.grad_output();
  return kernels::convolution_kernel_name(c.kernel.table->convolution,
                                          underlying(c, c.inputs[0].shape, output.shape));
}

// Both read the gradient with the bits of layers.
void emit_transposed_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.inputs(), e.grad_outputs_of_layer(), e.sums()});
  e.emit(e.rows().grad_input, {e.grad_outputs_of_layer(), e.grad_inputs()});
}

}  // namespace

const Op kTransposedConvolution = {
    .name = "transposed_convolution",
    .attributes = schema<TransposedAttributes>(kTransposedSchema),
    .infer_shape = infer_transposed,
    .parameters = transposed_parameters,
    .multiply_adds = transposed_multiply_adds,
    .integer = {.memory = transposed_memory,
                .check = check_transposed,
                .forward = {.run = transposed_forward, .prepare = prepare_transposed},
                .grad_input = {.run = transposed_backward_input,
                               .prepare = prepare_transposed_input},
                .grad_weights = {.run = transposed_backward_weights,
                                 .prepare = prepare_transposed_weights},
                .kernel = transposed_kernel},
    .emit_gradient = emit_transposed_gradient,
    .fp32 = &fp32::kTransposedConvolution};

}  // namespace mantissa::ops
