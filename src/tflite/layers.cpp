// Pixels, convolutions, linear layers. A layer's numbers are checked against the rules under which
// all ways of rounding agree (docs/decisions/0138-a-form-without-ties.md).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/convolutions/convolution_shape.h"
#include "ops/ops.h"
#include "ops/pixels.h"
#include "tflite/export_context.h"

namespace mantissa::tflite {
namespace {

constexpr int kLeastShift = -7, kMostExactShift = 15, kMostShift = 24;
constexpr int64_t kExactSums = int64_t{1} << 23, kMostSum = int64_t{1} << 30;
constexpr int kPixelZero = 128;

// Rows of weights, and for each the bias and the right shift of its sums.
struct LayerNumbers {
  std::vector<int8_t> weights;
  std::vector<int32_t> bias;
  std::vector<int> shifts;
};

bool is_power(float number, int& exponent) { return std::frexp(number, &exponent) == 0.5f; }

// Whether every way of rounding gives a channel's sums the same result.
bool is_tie_free(std::span<const int8_t> weights, int64_t bias, int shift) {
  int64_t most = std::abs(bias);
  bool is_even = true;
  for (const int8_t weight : weights) {
    most += std::abs(int64_t{weight}) * kPixelZero;
    is_even = is_even && weight % 2 == 0;
  }
  if (shift < kLeastShift || shift > kMostShift || most >= kMostSum) return false;
  if (shift <= 0) return true;
  const bool is_odd = bias % 2 != 0;
  if (!is_even || is_odd != (shift >= 2)) return false;
  return shift <= kMostExactShift || most < kExactSums;
}

Result<LayerNumbers> layer_numbers(const ExportContext& context, const Node& node) {
  const auto weights = context.numbers<int8_t>(node.parameters[0]);
  const auto bias = context.numbers<int32_t>(node.parameters[1]);
  LayerNumbers layer{{weights.begin(), weights.end()}, {bias.begin(), bias.end()}, {}};
  const size_t row = weights.size() / bias.size();
  for (const float multiplier : context.numbers<float>(node.parameters[2])) {
    int exponent = 0;
    const size_t c = layer.shifts.size();
    if (!is_power(multiplier, exponent) ||
        !is_tie_free(weights.subspan(c * row, row), bias[c], 1 - exponent)) {
      return invalid_input("has numbers in channel " + std::to_string(c) +
                           " whose sums runtimes would round differently");
    }
    layer.shifts.push_back(1 - exponent);
  }
  return layer;
}

// The scales of the weights. Of sums that are shifted by 2 or more they are 1 - 2^-24 times a power
// of two: the multiplier 2^31 - 128 leaves a sum as it is in a first rounding, so that there is
// one.
std::vector<float> weight_scales(const LayerNumbers& layer, int in, int out) {
  std::vector<float> scales;
  for (const int shift : layer.shifts) {
    const float power = std::ldexp(1.0f, out - in - shift);
    scales.push_back(shift >= 2 ? std::nextafter(power, 0.0f) : power);
  }
  return scales;
}

// Adds weights and bias; returns the operator's inputs behind the image.
std::vector<int> add_numbers(ExportContext& context, const std::string& name,
                             const LayerNumbers& layer, int in, int out, std::vector<int32_t> dims,
                             int axis) {
  std::vector<float> scales = weight_scales(layer, in, out);
  const auto* bytes = reinterpret_cast<const std::byte*>(layer.weights.data());
  TensorData weights{.name = name + ".weights",
                     .dims = std::move(dims),
                     .scales = scales,
                     .axis = axis,
                     .bytes = {bytes, bytes + layer.weights.size()}};
  for (float& scale : scales) scale = std::ldexp(scale, in);
  const auto* sums = reinterpret_cast<const std::byte*>(layer.bias.data());
  TensorData bias{.name = name + ".bias",
                  .type = Type::kInt32,
                  .dims = {static_cast<int32_t>(layer.bias.size())},
                  .scales = std::move(scales),
                  .bytes = {sums, sums + sizeof(int32_t) * layer.bias.size()}};
  return {context.add(std::move(weights)), context.add(std::move(bias))};
}

// [O][taps] to [taps][O].
void transpose(std::vector<int8_t>& weights, size_t channels) {
  const std::vector<int8_t> rows = weights;
  const size_t taps = rows.size() / channels;
  for (size_t i = 0; i < rows.size(); ++i) weights[i % taps * channels + i / taps] = rows[i];
}

Exported layer_value(const ExportContext& context, const Node& node, int n) {
  const auto& attributes = node.attributes.as<ops::LayerAttributes>();
  const bool is_relu6 = attributes.relu6;
  const bool is_signed =
      !is_relu6 && attributes.most == 0 && !context.network.applies_relu[static_cast<size_t>(n)];
  const int limit = context.network.limits[static_cast<size_t>(
      context.network.canonical[static_cast<size_t>(node.outputs[0])])];
  const int exponent = context.exponent(node.outputs[0]);
  if (attributes.most > 0) return made_value(context, node, false, attributes.most);
  return made_value(context, node, is_signed,
                    is_relu6 ? ops::largest_of_relu6(exponent, limit) : limit);
}

}  // namespace

// Pixels as int8, then their differences from the means: a depthwise layer of one tap.
Result<Exported> export_pixels(ExportContext& context, int n) {
  const Node& node = context.node(n);
  const auto& attributes = node.attributes.as<ops::InputAttributes>();
  const Shape& shape = context.shape(node.outputs[0]);
  const Exported bytes{.exponent = ops::kPixelExponent, .zero = 0};
  TensorData pixels{.name = "pixels",
                    .type = Type::kUint8,
                    .dims = {1, static_cast<int32_t>(shape[0]), static_cast<int32_t>(shape[1]),
                             static_cast<int32_t>(shape[2])},
                    .scales = {std::ldexp(1.0f, ops::kPixelExponent)},
                    .zero = kPixelZero};
  context.model.inputs = {context.add(std::move(pixels))};
  const int as_int8 = context.add_value(node.name + "/int8", shape, bytes);
  context.model.operations.push_back({Code::kQuantize, {context.model.inputs[0]}, {as_int8}});
  const Exported out = made_value(context, node, true, INT8_MAX);
  const int fraction = attributes.fraction_bits;
  const auto channels = static_cast<size_t>(shape[2]);
  LayerNumbers layer{std::vector<int8_t>(channels, static_cast<int8_t>(2 << fraction)), {}, {}};
  for (size_t c = 0; c < channels; ++c) {
    const int64_t mean = c < attributes.means.size() ? *(attributes.means.begin() + c) : 0;
    layer.bias.push_back(static_cast<int32_t>(2 * ((int64_t{kPixelZero} << fraction) - mean) + 1));
    layer.shifts.push_back(out.exponent - ops::kPixelExponent + fraction + 1);
  }
  if (layer.shifts.empty() ||
      !is_tie_free(std::span(layer.weights).first(1), layer.bias[0], layer.shifts[0])) {
    return invalid_input("has an exponent that runtimes would round to differently");
  }
  std::vector<int> inputs = add_numbers(context, node.name, layer, ops::kPixelExponent,
                                        out.exponent, {1, 1, 1, static_cast<int32_t>(channels)}, 3);
  inputs.insert(inputs.begin(), as_int8);
  Exported result = out;
  result.tensor = context.add_value(node.name, shape, out);
  context.model.operations.push_back({Code::kDepthwise, std::move(inputs), {result.tensor}});
  return result;
}

Result<Exported> export_convolution(ExportContext& context, int n) {
  const Node& node = context.node(n);
  const auto& attributes = node.attributes.as<ops::LayerAttributes>();
  const Shape &in = context.shape(node.inputs[0]), &out = context.shape(node.outputs[0]);
  if (ops::is_sequence(in)) return invalid_input("is a convolution over one axis");
  const Shape& weights = context.graph.parameters[static_cast<size_t>(node.parameters[0])].shape;
  const bool is_depthwise = attributes.groups > 1 || (in[2] == 1 && weights[0] == 1);
  if (attributes.groups > 1 && (attributes.groups != in[2] || weights[0] != in[2])) {
    return invalid_input("has groups of several channels");
  }
  if (attributes.dilation > 1) return invalid_input("is dilated");
  MANTISSA_ASSIGN(LayerNumbers layer, layer_numbers(context, node));
  const auto side = [](int64_t size) { return static_cast<int32_t>(size); };
  std::vector<int32_t> dims = {side(weights[0]), side(weights[1]), side(weights[2]),
                               side(weights[3])};
  if (is_depthwise) {
    transpose(layer.weights, static_cast<size_t>(weights[0]));
    dims = {1, side(weights[1]), side(weights[2]), side(weights[0])};
  }
  const auto [vertical, horizontal] = ops::convolution_axes(attributes, false);
  const WindowPadding padding =
      window_padding({vertical.kernel, vertical.stride, vertical.padding, in[0], out[0]},
                     {horizontal.kernel, horizontal.stride, horizontal.padding, in[1], out[1]});
  const Exported from = context.input(node);
  Exported result = layer_value(context, node, n);
  std::vector<int> inputs = add_numbers(context, node.name, layer, from.exponent, result.exponent,
                                        std::move(dims), is_depthwise ? 3 : 0);
  inputs.insert(inputs.begin(),
                padding.pads() ? add_padding(context, node.name, from, in, padding) : from.tensor);
  result.tensor = context.add_value(node.name, out, result);
  context.model.operations.push_back({.code = is_depthwise ? Code::kDepthwise : Code::kConvolution,
                                      .inputs = std::move(inputs),
                                      .outputs = {result.tensor},
                                      .activation = activation_of(result.is_signed),
                                      .is_same = padding.is_same,
                                      .stride_height = side(vertical.stride),
                                      .stride_width = side(horizontal.stride)});
  return result;
}

Result<Exported> export_linear(ExportContext& context, int n) {
  const Node& node = context.node(n);
  MANTISSA_ASSIGN(const LayerNumbers layer, layer_numbers(context, node));
  const Shape& weights = context.graph.parameters[static_cast<size_t>(node.parameters[0])].shape;
  const Exported from = context.input(node);
  Exported result = layer_value(context, node, n);
  std::vector<int> inputs =
      add_numbers(context, node.name, layer, from.exponent, result.exponent,
                  {static_cast<int32_t>(weights[0]), static_cast<int32_t>(weights[1])}, 0);
  inputs.insert(inputs.begin(), from.tensor);
  result.tensor = context.add_value(node.name, context.shape(node.outputs[0]), result);
  context.model.operations.push_back(
      {Code::kFullyConnected, std::move(inputs), {result.tensor}, activation_of(result.is_signed)});
  return result;
}

}  // namespace mantissa::tflite
