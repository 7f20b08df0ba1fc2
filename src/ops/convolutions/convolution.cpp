// Convolution (strided, padded, grouped, dilated) of images, of sequences, which are images of one
// row, and of each image of a volume, and linear (a 1x1 convolution on 1x1 images): weights [O, KH, KW, C], optional bias.
#include <algorithm>

#include "kernels/common/exact_sums.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/convolution/gradient_digits.h"
#include "ops/attributes.h"
#include "ops/convolutions/channel_sums.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/convolution_sums.h"
#include "ops/convolutions/convolution_wide.h"
#include "ops/convolutions/deep_grad_input.h"
#include "ops/convolutions/grad_input.h"
#include "ops/convolutions/linear_rows.h"
#include "ops/convolutions/weight_attributes.h"
#include "ops/convolutions/weight_blocks.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionPass;
using kernels::ConvolutionShape;

constexpr int64_t kLargestSize = int64_t{1} << 31;
constexpr AttributeSpec kChannels =
    required_whole<&LayerAttributes::channels>("channels", 1, kLargestSize);
constexpr AttributeSpec kBias = flag<&LayerAttributes::bias>("bias", true);
constexpr AttributeSpec kWeightBits = whole<&LayerAttributes::weight_bits>("weight_bits", 0, 0, 7);
constexpr AttributeSpec kWeightExponent =
    whole<&LayerAttributes::weight_exponent>("weight_exponent", 0, kExponentMin, kExponentMax);
constexpr AttributeSpec kWeightRange =
    text<&LayerAttributes::weight_range>("weight_range", "symmetric", "symmetric full");
constexpr AttributeSpec kWeightTanh = flag<&LayerAttributes::weight_tanh>("weight_tanh", false);
constexpr AttributeSpec kWeightStops = flag<&LayerAttributes::weight_stops>("weight_stops", false);
constexpr AttributeSpec kKernel = whole<&LayerAttributes::kernel>("kernel", 3, 1, kLargestSize);
constexpr AttributeSpec kStride = whole<&LayerAttributes::stride>("stride", 1, 1, kLargestSize);
constexpr AttributeSpec kPadding = whole<&LayerAttributes::padding>("padding", 0, 0, kLargestSize);
constexpr AttributeSpec kGroups = whole<&LayerAttributes::groups>("groups", 1, 1, kLargestSize);
constexpr AttributeSpec kDilation = whole<&LayerAttributes::dilation>("dilation", 1, 1, INT64_MAX);
constexpr AttributeSpec kKernelWidth =
    whole<&LayerAttributes::kernel_width>("kernel_width", 0, 0, kLargestSize);
constexpr AttributeSpec kStrideWidth =
    whole<&LayerAttributes::stride_width>("stride_width", 0, 0, kLargestSize);
constexpr AttributeSpec kPaddingWidth =
    whole<&LayerAttributes::padding_width>("padding_width", -1, -1, kLargestSize);
constexpr AttributeSpec kCausal = flag<&LayerAttributes::causal>("causal", false);
constexpr AttributeSpec kConvolutionSchema[] = {
    kChannels,   kKernel,         kStride,      kPadding,     kGroups,
    kDilation,   kBias,           kKernelWidth, kStrideWidth, kPaddingWidth,
    kWeightBits, kWeightExponent, kWeightRange, kWeightTanh,  kWeightStops,
    kCausal};
constexpr AttributeSpec kInitialiser =
    text<&LayerAttributes::initialiser>("initialiser", "he", "he fan-in zero");
constexpr AttributeSpec kLinearSchema[] = {
    kChannels,   kBias,           flag<&LayerAttributes::classifier>("classifier", false),
    kWeightBits, kWeightExponent, kWeightRange,
    kWeightTanh, kWeightStops,    whole<&LayerAttributes::least_bits>("least_bits", 0, 0, 16),
    kInitialiser, whole<&LayerAttributes::input_bits>("input_bits", 0, 0, 16),
    kWeightBlocks<&LayerAttributes::weight_blocks>};

Status check_size(const Shape& weights) {
  if (element_count(weights)) return {};
  return invalid_input("weights " + to_string(weights) + " are too many");
}

bool fits(const ConvolutionAxis& axis, int64_t dilation, int64_t padded) {
  // Divided, not multiplied: either may be huge.
  return padded >= axis.kernel &&
         (axis.kernel == 1 || dilation <= (padded - 1) / (axis.kernel - 1));
}

// An axis with its padding.
int64_t padded_size(const LayerAttributes& attributes, const ConvolutionAxis& axis, int64_t size) {
  return size + (attributes.causal ? 1 : 2) * axis.padding;
}

// Results along an axis that the kernel fits.
int64_t results(const ConvolutionAxis& axis, int64_t dilation, int64_t padded) {
  const int64_t reach = (axis.kernel - 1) * dilation;  // from the first tap to the last
  return (padded - 1 - reach) / axis.stride + 1;
}

// Settings that images have and sequences lack, and the other way round.
Status check_settings(const LayerAttributes& attributes, bool of_sequence) {
  if (!of_sequence) {
    if (attributes.causal) return invalid_input("causal is possible for a sequence, [T, C]");
    return {};
  }
  if (attributes.kernel_width > 0 || attributes.stride_width > 0 || attributes.padding_width >= 0) {
    return invalid_input("a sequence [T, C] has no width: kernel, stride and padding are of T");
  }
  if (!attributes.causal) return {};
  if (attributes.padding > 0) return invalid_input("causal says the padding itself");
  if (attributes.kernel > 1 && attributes.dilation > kLargestSize / (attributes.kernel - 1)) {
    return invalid_input("a kernel of " + std::to_string(attributes.kernel) + " with dilation " +
                         std::to_string(attributes.dilation) + " is too long");
  }
  return {};
}

std::string kernel_text(const ConvolutionAxes& axes, bool of_sequence) {
  const bool square = of_sequence || axes.vertical.kernel == axes.horizontal.kernel;
  return square ? std::to_string(axes.horizontal.kernel)
                : std::to_string(axes.vertical.kernel) + "x" +
                      std::to_string(axes.horizontal.kernel);
}

Result<Shape> infer_convolution(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<LayerAttributes>();
  if (inputs.size() != 1 || !is_of_images(inputs[0])) {
    return invalid_input("wants one [H, W, C], [T, C] or [D, H, W, C] input");
  }
  const bool of_sequence = is_sequence(inputs[0]);
  MANTISSA_RETURN_IF_ERROR(check_settings(attributes, of_sequence));
  const Shape image = as_image(inputs[0]);
  const ConvolutionAxes axes = convolution_axes(attributes, of_sequence);
  const auto [vertical, horizontal] = axes;
  const int64_t channels = attributes.channels, groups = attributes.groups;
  if (channels % groups != 0 || image.last() % groups != 0) {
    return invalid_input("wants groups that divide " + std::to_string(image.last()) +
                         " input and " + std::to_string(channels) + " output channels");
  }
  const int64_t dilation = attributes.dilation;
  const int64_t height = padded_size(attributes, vertical, image[0]),
                width = padded_size(attributes, horizontal, image[1]);
  if (!fits(vertical, dilation, height) || !fits(horizontal, dilation, width)) {
    return invalid_input("a kernel of " + kernel_text(axes, of_sequence) +
                         (dilation > 1 ? " with dilation " + std::to_string(dilation) : "") +
                         " does not fit " + (of_sequence              ? "a sequence of "
                          : is_volume(inputs[0]) ? "images of "
                                                 : "an image of ") +
                         to_string(inputs[0]));
  }
  MANTISSA_RETURN_IF_ERROR(
      check_size({channels, vertical.kernel, horizontal.kernel, image.last() / groups}));
  return like_input(
      Shape{results(vertical, dilation, height), results(horizontal, dilation, width), channels},
      inputs[0]);
}

// Takes vectors along the last dimension.
Result<Shape> infer_linear(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<LayerAttributes>();
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one [..., C] input");
  MANTISSA_RETURN_IF_ERROR(check_size({attributes.channels, inputs[0].last()}));
  MANTISSA_RETURN_IF_ERROR(check_blocks(attributes.weight_blocks, inputs[0].last()));
  if (attributes.weight_blocks != BlockKind::kNone && attributes.weight_bits > 0) {
    return invalid_input("weight_blocks and weight_bits exclude each other");
  }
  Shape output = inputs[0];
  output.dims[static_cast<size_t>(output.rank - 1)] = attributes.channels;
  return output;
}

std::vector<Parameter> weights_and_bias(const LayerAttributes& attributes, const Shape& weights,
                                        Initialiser initialiser) {
  const int64_t channels = weights[0], fan_in = weights.count() / channels;
  std::vector<Parameter> parameters = {
      {.name = "weights",
       .shape = weights,
       .initialiser = initialiser,
       .fan_in = fan_in,
       .decays = true,
       .grid = weight_grid(attributes),
       .grid_exponent = attributes.weight_exponent,
       .steps_through_tanh = attributes.weight_bits > 0 && attributes.weight_tanh}};
  if (attributes.bias) {
    parameters.push_back({.name = "bias", .shape = Shape{channels}, .storage = Storage::kBias});
  }
  return parameters;
}

std::vector<Parameter> convolution_parameters(const Attributes& given,
                                              std::span<const Shape> inputs) {
  const auto& attributes = given.as<LayerAttributes>();
  const auto [vertical, horizontal] = convolution_axes(attributes, is_sequence(inputs[0]));
  const int64_t in = inputs[0].last() / attributes.groups;
  return weights_and_bias(attributes,
                          Shape{attributes.channels, vertical.kernel, horizontal.kernel, in},
                          Initialiser::kHeUniform);
}

std::vector<Parameter> linear_parameters(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<LayerAttributes>();
  const bool is_small = attributes.classifier || attributes.initialiser == LayerInitialiser::kFanIn;
  const bool is_zero = attributes.initialiser == LayerInitialiser::kZero;
  std::vector<Parameter> parameters =
      weights_and_bias(attributes, Shape{attributes.channels, inputs[0].last()},
                       is_zero    ? Initialiser::kZero
                       : is_small ? Initialiser::kFanInUniform
                                  : Initialiser::kHeUniform);
  keep_in_blocks(attributes.weight_blocks, parameters);
  return parameters;
}

OpMemory byte_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = convolution_shape(s);
  const kernels::KernelTable& table = *planning.kernels;
  const int threads = planning.threads;
  OpMemory memory{.forward = byte_forward_memory(s, planning)};
  memory.grad_input.scratch_bytes = static_cast<int64_t>(kernels::convolution_scratch_bytes(
      table.convolution, {ConvolutionPass::kGradInput, shape, s.gradient.bits}, threads));
  if (s.parameter_grids[0].blocks == Blocks::kChannel) {
    memory.grad_input.workspace_bytes = align_gradient_bytes(
        shape.output_count() / shape.out_channels, shape.out_channels, s.gradient.bits);
  }
  memory.grad_weights.scratch_bytes = static_cast<int64_t>(kernels::convolution_scratch_bytes(
      table.convolution, {ConvolutionPass::kGradWeights, shape, s.wide_gradient.bits}, threads));
  memory.grad_weights.workspace_bytes = kernels::kMaximumParts * channel_bytes(shape.out_channels);
  plan_wide_convolution(s, planning, memory);
  if (is_by_rows(s)) plan_rows(s, planning, memory);
  return memory;
}

OpMemory memory(const OpShapes& s, const PlanningContext& planning) {
  OpMemory memory =
      has_blocks(s) ? memory_of_blocks(s, planning, byte_memory) : byte_memory(s, planning);
  if (has_deep_grad_input(s)) memory.grad_input = deep_grad_input_memory(s, planning);
  return memory;
}

int64_t multiply_adds(const OpShapes& s) { return convolution_shape(s).multiply_adds(); }

Status check(const OpShapes& s) {
  const ConvolutionShape shape = convolution_shape(s);
  const int64_t taps = shape.kernel_height * shape.kernel_width;
  // The gradient of the input is a sum over the output channels.
  const bool sums_outputs = is_training(s.exponent_mode) && !has_deep_grad_input(s);
  const int64_t outputs = sums_outputs ? shape.group_out_channels() : 0;
  const int64_t depth = taps * std::max(shape.group_in_channels(), outputs);
  if (depth > kernels::kMaximumForwardDepth) {
    return invalid_input("sums of " + std::to_string(depth) + " products are not exact in int32; " +
                         "at most " + std::to_string(kernels::kMaximumForwardDepth) + " are" +
                         (depth == taps * outputs ? " in training" : ""));
  }
  const bool is_narrowed = s.output_type != DataType::kInt32;
  if (is_by_rows(s) && is_narrowed && s.output.last() > kMostRowChannels) {
    return invalid_input("with blocks=token wants at most " + std::to_string(kMostRowChannels) +
                         " channels");
  }
  const int64_t pixels = shape.batch * shape.out_height * shape.out_width;
  if (is_training(s.exponent_mode) && s.wide_gradient.bits > 16 &&
      pixels > kernels::kMaximumWideGradientPixels) {
    return invalid_input("sums of " + std::to_string(pixels) +
                         " gradients of gw=32 are not exact in int64; at most " +
                         std::to_string(kernels::kMaximumWideGradientPixels) +
                         " are: choose a smaller micro-batch");
  }
  return {};
}

// Mean gradients are rarely larger than this part of the largest.
constexpr int64_t kLikelyBelow = 4;

SumWidth sum_width(const OpShapes& s) {
  const ConvolutionShape shape = convolution_shape(s);
  const int input_bits = s.input_bits(0), gradient_bits = s.wide_gradient.bits;
  if (input_bits > 8 || gradient_bits > 16 || is_by_rows(s)) return SumWidth::kInt64;
  const int64_t rows = shape.batch * shape.out_height * shape.out_width;
  if (kernels::sums_fit_int32(rows, input_bits, gradient_bits)) return SumWidth::kInt32;
  // A look at the gradients costs less than narrow sums save only if the weights are many. It is
  // useless if most gradients would have to be far below the largest.
  const bool many_weights = shape.weights_count() >= shape.output_count() / 4;
  const bool likely =
      kernels::sums_fit_int32(divide_up(rows, kLikelyBelow), input_bits, gradient_bits);
  return many_weights && likely ? SumWidth::kMeasured : SumWidth::kInt64;
}

// Each row of kernels is chosen once, by the shapes and widths of the instruction.
Prepared prepare_backward_input(const OpContext& c) {
  if (has_deep_grad_input(c)) return prepare_deep_grad_input(c);
  if (has_blocks(c)) return prepare_grad_input_of_blocks(c);
  if (is_wide_grad_input(c)) return prepare_wide_grad_input(c);
  return prepared(choose(c, {ConvolutionPass::kGradInput,
                             convolution_shape(c, c.grad_inputs[0].shape, c.grad_output().shape),
                             c.grad_output().bits}));
}

Prepared prepare_backward_weights(const OpContext& c) {
  if (is_by_rows(c)) return prepare_row_backward_weights(c);
  if (is_wide_grad_weights(c)) return prepare_wide_grad_weights(c, c.inputs[0].bits);
  return prepared(choose(
      c, {ConvolutionPass::kGradWeights,
          convolution_shape(c, c.inputs[0].shape, c.grad_output().shape), c.grad_output().bits}));
}

Prepared prepare_expanded(const OpContext& c) {
  if (is_by_rows(c)) return prepare_row_forward(c);
  return is_wide_forward(c) ? prepare_wide_forward(c) : prepare_byte_forward(c);
}

Prepared prepare_forward(const OpContext& c) {
  return has_blocks(c) ? prepare_forward_of_blocks(c, prepare_expanded) : prepare_expanded(c);
}

void forward_expanded(const OpContext& c) {
  if (is_by_rows(c)) {
    row_forward(c);
  } else if (is_wide_forward(c)) {
    wide_forward(c);
  } else {
    byte_forward(c);
  }
}

void forward(const OpContext& c) {
  has_blocks(c) ? forward_of_blocks(c, forward_expanded) : forward_expanded(c);
}

kernels::WideStatistics write_byte_grad_input(const OpContext& c, int shift,
                                              const kernels::PassCounts& counts) {
  const Tensor& weights = c.parameters[0].mantissa;
  const auto& choice = choices_of<ConvolutionChoice>(c);
  return choice.grad_input({choice.work.shape, align_gradient(c, weights), weights.as<int8_t>(),
                            shift, gradient_of(c.grad_inputs[0]), counts},
                           c.kernel);
}

void backward_input(const OpContext& c) {
  narrow_gradient(c, c.grad_inputs[0], wide_grad_input_exponent(c),
                  [&](int shift, const kernels::PassCounts& counts) {
                    return write_grad_input(c, shift, counts);
                  });
}

// Whether no sum of products can leave int32, nor a part of it, whatever the inputs are.
bool sums_fit_int32(const OpContext& c) {
  const int64_t most = kernels::most_magnitudes_of_int32_sums(c.inputs[0].bits);
  const auto sums = channel_sums(c, c.kernel.table->elementwise->sum_magnitudes);
  return std::all_of(sums.begin(), sums.end(), [&](int64_t sum) { return sum <= most; });
}

void grad_weights(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const ParameterView& weights = c.parameters[0];
  const Tensor& gradient = weights.gradient;
  if (weights.narrow_sums != nullptr) {
    *weights.narrow_sums = sums_fit_int32(c) ? 1 : 0;
    *gradient.exponent = *weights.fixed_exponent;
    const bool is_left = *weights.narrow_sums == 0 && gradient.type == DataType::kInt32;
    if (is_left) return;
  }
  const kernels::GradientSums totals = sums_of(weights);
  const int sum_exponent = *input.exponent + *c.grad_output().exponent;
  if (totals.bits == 32) *gradient.exponent = static_cast<int16_t>(sum_exponent);
  const auto& choice = choices_of<ConvolutionChoice>(c);
  choice.grad_weights({choice.work.shape, input.as<int8_t>(), gradient_of(c.grad_output()),
                       *gradient.exponent - sum_exponent, totals, c.adds_gradients()},
                      c.kernel);
}

void backward_weights(const OpContext& c) {
  if (is_by_rows(c)) {
    row_backward_weights(c);
  } else if (is_wide_grad_weights(c)) {
    wide_backward_weights(c, c.inputs[0]);
  } else if (!c.parameters[0].gradient.empty()) {
    grad_weights(c);
  }
  if (c.parameters.size() > 1) backward_bias(c);
}

// The columns of grad_output that the rows come from lie before the kernel's own scratch.
size_t column_bytes(const ConvolutionShape& of_rows, int bits) {
  return kernels::aligned_bytes(of_rows.output_count() * kernels::gradient_bytes(bits));
}

bool rows_possible(const OpShapes& s) { return s.inputs[0].last() == s.parameters[0].last(); }

int64_t row_scratch_bytes(const OpShapes& s, const PlanningContext& planning, int64_t rows) {
  ConvolutionShape shape = convolution_shape(s);
  const int bits = s.wide_gradient.bits;
  const size_t bytes = kernels::most_of_pieces(shape.out_channels, rows, [&](int64_t channels) {
    shape.out_channels = channels;
    return column_bytes(shape, bits) +
           kernels::convolution_scratch_bytes(planning.kernels->convolution,
                                              {ConvolutionPass::kGradWeights, shape, bits}, 1);
  });
  return static_cast<int64_t>(kernels::aligned_bytes(static_cast<int64_t>(bytes)));
}

// For the number of rows computed at once, and for the rest of them.
Prepared prepare_rows(const OpContext& c) {
  ConvolutionShape shape = convolution_shape(c, c.inputs[0].shape, c.grad_output().shape);
  const auto choose_for = [&](int64_t rows) {
    shape.out_channels = rows;
    return choose(c, {ConvolutionPass::kGradWeights, shape, c.grad_output().bits});
  };
  return prepared(PieceChoices<ConvolutionChoice>(shape.out_channels, c.parameters[0].rows_at_once,
                                                  choose_for));
}

void compute_rows(const OpContext& c, int64_t first, int64_t rows, void* sums,
                  std::span<std::byte> scratch) {
  const Tensor &input = c.inputs[0], &gradient = c.grad_output();
  const ParameterView& weights = c.parameters[0];
  const auto& choice = choices_of<PieceChoices<ConvolutionChoice>>(c).of(rows);
  const int64_t element = element_bytes(gradient.type), row = gradient.shape.last() * element;
  ThreadPool alone(1);
  kernels::copy_rows(alone, gradient.as<std::byte>() + first * element, row, scratch.data(),
                     rows * element, rows * element, gradient.count() * element / row);
  choice.grad_weights({choice.work.shape,
                       input.as<int8_t>(),
                       {scratch.data(), gradient.bits},
                       *weights.gradient.exponent - (*input.exponent + *gradient.exponent),
                       {sums, sums_of(weights).bits},
                       false},
                      {&alone, scratch.subspan(column_bytes(choice.work.shape, gradient.bits))});
}

const char* kernel(const OpContext& c) {
  const Tensor& output = c.grad_output().empty() ? c.output() : c.grad_output();
  return kernels::convolution_kernel_name(c.kernel.table->convolution,
                                          convolution_shape(c, c.inputs[0].shape, output.shape));
}

constexpr GradientRows kGradientRows = {rows_possible, row_scratch_bytes, prepare_rows,
                                        compute_rows};

// Layers of a frozen network with a batch norm after them, which became a multiplier and a bias.
constexpr AttributeSpec kRelu6 = flag<&LayerAttributes::relu6>("relu6", false);
constexpr AttributeSpec kFullRange = flag<&LayerAttributes::full_range>("full_range", false);
constexpr AttributeSpec kMost = whole<&LayerAttributes::most>("most", 0, 0, INT8_MAX);
constexpr AttributeSpec kRescaledSchema[] = {kChannels,    kKernel,       kStride,    kPadding,
                                             kGroups,      kDilation,     kRelu6,     kKernelWidth,
                                             kStrideWidth, kPaddingWidth, kFullRange, kMost,
                                             kCausal};
constexpr AttributeSpec kRescaledLinearSchema[] = {kChannels, kRelu6, kFullRange};

std::vector<Parameter> rescaled(const Shape& weights) {
  const Shape channels{weights[0]};
  return {{.name = "weights", .shape = weights, .trained = false},
          {.name = "sum_bias", .shape = channels, .storage = Storage::kSum, .trained = false},
          {.name = "multiplier", .shape = channels, .storage = Storage::kFloat, .trained = false}};
}

std::vector<Parameter> rescaled_convolution_parameters(const Attributes& given,
                                                       std::span<const Shape> inputs) {
  const auto& attributes = given.as<LayerAttributes>();
  const auto [vertical, horizontal] = convolution_axes(attributes, is_sequence(inputs[0]));
  return rescaled({attributes.channels, vertical.kernel, horizontal.kernel,
                   inputs[0].last() / attributes.groups});
}

std::vector<Parameter> rescaled_linear_parameters(const Attributes& given,
                                                  std::span<const Shape> inputs) {
  const auto& attributes = given.as<LayerAttributes>();
  return rescaled({attributes.channels, inputs[0].last()});
}

OpMemory rescaled_memory(const OpShapes& s, const PlanningContext& planning) {
  OpShapes whole = s;
  whole.half_up = false;  // the weights in the state are doubled
  return {.forward = byte_forward_memory(whole, planning)};
}

// Gradients of weights read the gradient as wide as it comes.
void emit_layer_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.inputs(), e.grad_outputs(), e.sums()});
  e.emit(e.rows().grad_input, {e.grad_outputs_of_layer(), e.grad_inputs(GradientWidth::kLayer)});
}

constexpr OpTraits kTraits = {.narrowing = Narrowing::kLayer};
constexpr OpTraits kLinearTraits = {
    .narrowing = Narrowing::kLayer, .takes = TakenExponents::kOfRows, .row_by_row = true};

constexpr OpRows kRows = {.memory = memory,
                          .check = check,
                          .forward = {.run = forward, .prepare = prepare_forward},
                          .grad_input = {.run = backward_input, .prepare = prepare_backward_input},
                          .grad_weights = {.run = backward_weights,
                                           .prepare = prepare_backward_weights,
                                           .writes_first_gradient = true},
                          .kernel = kernel,
                          .sum_width = sum_width};
constexpr OpRows kRescaledRows = {
    .memory = rescaled_memory,
    .check = check,
    .forward = {.run = rescaled_forward, .prepare = prepare_byte_forward},
    .kernel = kernel};

}  // namespace

int wide_grad_input_exponent(const OpContext& c) {
  return *c.grad_output().exponent + c.parameters[0].mantissa.largest_exponent();
}

kernels::WideStatistics write_grad_input(const OpContext& c, int shift,
                                         const kernels::PassCounts& counts) {
  if (has_deep_grad_input(c)) return write_deep_grad_input(c, shift, counts);
  if (has_blocks(c)) return write_grad_input_of_blocks(c, shift);
  if (is_wide_grad_input(c)) return write_wide_grad_input(c, shift, counts);
  return write_byte_grad_input(c, shift, counts);
}

const Op kConvolution = {.name = "convolution",
                         .traits = kTraits,
                         .attributes = schema<LayerAttributes>(kConvolutionSchema),
                         .infer_shape = infer_convolution,
                         .parameters = convolution_parameters,
                         .multiply_adds = multiply_adds,
                         .integer = kRows,
                         .emit_gradient = emit_layer_gradient,
                         .gradient_rows = &kGradientRows,
                         .fp32 = &fp32::kConvolution};

const Op kLinear = {.name = "linear",
                    .traits = kLinearTraits,
                    .attributes = schema<LayerAttributes>(kLinearSchema),
                    .bits = least_bits<LayerAttributes>,
                    .infer_shape = infer_linear,
                    .parameters = linear_parameters,
                    .multiply_adds = multiply_adds,
                    .integer = kRows,
                    .emit_gradient = emit_layer_gradient,
                    .gradient_rows = &kGradientRows,
                    .fp32 = &fp32::kConvolution};

const Op kRescaledConvolution = {
    .name = "rescaled_convolution",
    .traits = {.narrowing = Narrowing::kFrozenLayer, .applies_relu = true},
    .attributes = schema<LayerAttributes>(kRescaledSchema),
    .infer_shape = infer_convolution,
    .parameters = rescaled_convolution_parameters,
    .multiply_adds = multiply_adds,
    .integer = kRescaledRows};

const Op kRescaledLinear = {.name = "rescaled_linear",
                            .traits = {.narrowing = Narrowing::kFrozenLayer, .applies_relu = true},
                            .attributes = schema<LayerAttributes>(kRescaledLinearSchema),
                            .infer_shape = infer_linear,
                            .parameters = rescaled_linear_parameters,
                            .multiply_adds = multiply_adds,
                            .integer = kRescaledRows};

}  // namespace mantissa::ops
