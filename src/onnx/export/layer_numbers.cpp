#include "onnx/export/layer_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "numerics/rounding.h"
#include "onnx/export/parameters.h"
#include "ops/convolutions/convolution_bytes.h"
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

// The largest weight, and the largest sum.
void find_extremes(int most_input, LayerNumbers& layer) {
  const auto row = static_cast<int64_t>(layer.weights.size()) / layer.channels;
  for (int64_t c = 0; c < layer.channels; ++c) {
    int64_t sum = layer.bias.empty() ? 0 : std::abs(int64_t{layer.bias[static_cast<size_t>(c)]});
    for (int64_t i = c * row; i < (c + 1) * row; ++i) {
      const int weight = std::abs(layer.weights[static_cast<size_t>(i)]);
      layer.most_weight = std::max(layer.most_weight, weight);
      sum += int64_t{weight} * most_input;
    }
    layer.most_sum = std::max(layer.most_sum, sum);
  }
}

}  // namespace

Result<LayerNumbers> layer_numbers(const ExportedNetwork& network, const Node& node,
                                   const LayerSurroundings& around) {
  const Parameter& weights = network.graph->parameters[node.parameters[0]];
  const std::span mantissas = as<int8_t>(network.parameters[node.parameters[0]].numbers);
  LayerNumbers layer{
      .weights = {mantissas.begin(), mantissas.end()},
      .bias = {},
      .scales = {},
      .turned = {},
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
  find_extremes(around.most_input, layer);
  return layer;
}

bool LayerNumbers::has_one_scale() const {
  return std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) == scales.end();
}

}  // namespace mantissa::onnx
