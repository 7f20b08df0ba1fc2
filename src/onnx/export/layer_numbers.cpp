#include "onnx/export/layer_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "numerics/rounding.h"
#include "onnx/export/parameters.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/convolutions/transposed_shape.h"
#include "ops/image_shape.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

template <typename T>
std::span<const T> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Multipliers of either sign to scales above zero: of a channel whose multiplier is negative,
// weights and bias change theirs.
void take_multipliers(std::span<const float> multipliers, int shift, LayerNumbers& layer) {
  const auto row = static_cast<int64_t>(layer.weights.size()) / layer.channels;
  for (int64_t c = 0; c < layer.channels; ++c) {
    const float multiplier = multipliers[static_cast<size_t>(c)];
    layer.scales.push_back(std::ldexp(std::abs(multiplier), shift));
    layer.turned.push_back(std::signbit(multiplier));
    if (!layer.turned.back()) continue;
    layer.bias[static_cast<size_t>(c)] *= -1;
    for (int64_t i = c * row; i < (c + 1) * row; ++i) layer.weights[static_cast<size_t>(i)] *= -1;
  }
}

void take_powers(const ExportedNetwork& network, const Node& node, const LayerSurroundings& around,
                 LayerNumbers& layer) {
  const std::span exponents = network.parameters[node.parameters[0]].exponents;
  for (int64_t c = 0; c < layer.channels; ++c) {
    const int exponent = exponents[exponents.size() > 1 ? static_cast<size_t>(c) : 0];
    layer.scales.push_back(std::ldexp(1.0f, exponent));
    layer.turned.push_back(false);
    if (node.parameters.size() < 2) continue;
    const ExportedParameter& bias = network.parameters[node.parameters[1]];
    const int64_t wide = rescale_rne(mantissa_at(bias, layer.channels, c),
                                     around.input_exponent + exponent - bias.exponents[0]);
    layer.bias.push_back(static_cast<int32_t>(saturate(wide, ops::kBiasLimit)));
  }
}

// The results along both axes that one input meets with other weights: a sum has the weights of one
// of these places alone.
struct Places {
  int64_t height = 1, width = 1;        // of the window
  int64_t vertical = 1, horizontal = 1;  // strides
  int64_t count() const { return vertical * horizontal; }
  // Of weight i of a channel of `depth` inputs.
  int64_t of(int64_t i, int64_t depth) const {
    const int64_t tap = i / depth;
    return tap / width % vertical * horizontal + tap % width % horizontal;
  }
};

Places places_of(const Node& node, const Shape& input) {
  if (node.op != &ops::kTransposedConvolution) return {};
  const auto [vertical, horizontal] = ops::transposed_axes(
      node.attributes.as<ops::TransposedAttributes>(), ops::is_sequence(input));
  return {vertical.kernel, horizontal.kernel, vertical.stride, horizontal.stride};
}

// The largest weight, and the largest sum.
void find_extremes(int most_input, const Places& places, int64_t depth, LayerNumbers& layer) {
  const auto row = static_cast<int64_t>(layer.weights.size()) / layer.channels;
  for (int64_t c = 0; c < layer.channels; ++c) {
    const int64_t start =
        layer.bias.empty() ? 0 : std::abs(int64_t{layer.bias[static_cast<size_t>(c)]});
    std::vector<int64_t> sums(static_cast<size_t>(places.count()), start);
    for (int64_t i = 0; i < row; ++i) {
      const int weight = std::abs(layer.weights[static_cast<size_t>(c * row + i)]);
      layer.most_weight = std::max(layer.most_weight, weight);
      sums[static_cast<size_t>(places.of(i, depth))] += int64_t{weight} * most_input;
    }
    layer.most_sum = std::max(layer.most_sum, *std::max_element(sums.begin(), sums.end()));
  }
}

std::vector<int64_t> dims_in_file(const Shape& shape, bool is_transposed, bool of_positions) {
  if (shape.rank == 4 && is_transposed) return {shape[3], shape[0], shape[1], shape[2]};
  if (shape.rank == 4) return {shape[0], shape[3], shape[1], shape[2]};
  if (of_positions) return {shape[0], shape[1], 1, 1};
  return dims_of(shape);
}

}  // namespace

Result<LayerNumbers> layer_numbers(const ExportedNetwork& network, const Node& node,
                                   const LayerSurroundings& around) {
  const Parameter& weights = network.graph->parameters[node.parameters[0]];
  const Shape& input = network.graph->values[node.inputs[0]].shape;
  const bool is_transposed = node.op == &ops::kTransposedConvolution;
  if (std::ssize(network.parameters[node.parameters[0]].numbers) != weights.shape.count()) {
    return invalid_input("has weights of more than 8 bits");
  }
  const std::span mantissas = as<int8_t>(network.parameters[node.parameters[0]].numbers);
  LayerNumbers layer{
      .weights = {mantissas.begin(), mantissas.end()},
      .bias = {},
      .scales = {},
      .turned = {},
      .dims = dims_in_file(weights.shape, is_transposed, input.rank > 1),
      .is_transposed = is_transposed,
      .channels = weights.shape[0],
      .is_rescaled = node.op == &ops::kRescaledConvolution || node.op == &ops::kRescaledLinear};
  if (layer.is_rescaled) {
    const std::span bias = as<int32_t>(network.parameters[node.parameters[1]].numbers);
    layer.bias.assign(bias.begin(), bias.end());
    take_multipliers(as<float>(network.parameters[node.parameters[2]].numbers),
                     around.output_exponent - around.input_exponent, layer);
  } else {
    take_powers(network, node, around, layer);
  }
  for (const float scale : layer.scales) {
    if (!std::isnormal(scale) || !std::isnormal(std::ldexp(scale, around.input_exponent))) {
      return invalid_input("has a multiplier that float32 scales cannot express");
    }
  }
  find_extremes(around.most_input, places_of(node, input), weights.shape.last(), layer);
  return layer;
}

bool LayerNumbers::has_one_scale() const {
  return std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) == scales.end();
}

}  // namespace mantissa::onnx
