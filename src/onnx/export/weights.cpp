#include "onnx/export/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int kZeroByte = 128;  // the zero point of uint8 weights
constexpr int kMostInt4 = 7;
// CPUs with AVX2 and without VNNI add two products of bytes with saturation.
constexpr int kMostPair = 32767;
constexpr int kMostWeightShift = 7;

// By how many bits all weights can be shifted to the right, exactly.
int common_shift(const std::vector<int8_t>& weights) {
  unsigned any = 0;
  for (const int8_t weight : weights) any |= static_cast<unsigned>(std::abs(int{weight}));
  return any == 0 ? 0 : std::countr_zero(any);
}

// The place in the file's order (LayerNumbers::dims) of element i of our own [O, H, W, C].
int64_t place(const Shape& shape, const LayerNumbers& layer, int64_t i) {
  if (shape.rank != 4) return i;
  const int64_t pixels = shape[1] * shape[2], depth = shape[3];
  const int64_t row = i / (pixels * depth), pixel = i / depth % pixels, d = i % depth;
  return (layer.is_transposed ? d * shape[0] + row : row * depth + d) * pixels + pixel;
}

// The bytes in the file. Two weights of 4 bits share a byte, the first in the low half.
std::vector<uint8_t> stored(const LayerNumbers& layer, const Shape& shape,
                            const WeightsForm& form) {
  const std::vector<int8_t>& weights = layer.weights;
  const bool is_int4 = form.type == ElementType::kInt4;
  std::vector<uint8_t> bytes(is_int4 ? divide_up<size_t>(weights.size(), 2) : weights.size());
  for (int64_t i = 0; i < std::ssize(weights); ++i) {
    const int weight = weights[static_cast<size_t>(i)] >> form.shift;
    const auto to = static_cast<size_t>(place(shape, layer, i));
    if (is_int4) {
      bytes[to / 2] |= static_cast<uint8_t>((weight & 15) << (to % 2 * 4));
    } else {
      bytes[to] = static_cast<uint8_t>(weight + (form.type == ElementType::kUint8 ? kZeroByte : 0));
    }
  }
  return bytes;
}

// One weight back from the file; nothing if it is no mantissa.
std::optional<int8_t> weight_at(const TensorData& tensor, int64_t at, int shift) {
  const size_t index = static_cast<size_t>(at);
  int weight = 0;
  if (tensor.type == ElementType::kInt4) {
    weight = std::to_integer<int>(tensor.bytes[index / 2]) >> (at % 2 * 4) & 15;
    weight -= weight > kMostInt4 ? 16 : 0;
  } else {
    const int byte = std::to_integer<int>(tensor.bytes[index]);
    weight = tensor.type == ElementType::kUint8 ? byte - kZeroByte : static_cast<int8_t>(byte);
  }
  weight *= 1 << shift;
  if (std::abs(weight) > INT8_MAX) return std::nullopt;
  return static_cast<int8_t>(weight);
}

// The zero point, one or one for each channel: without one a Gemm is not computed in integers.
std::string add_zeros(ExportBuilder& to, const std::string& name, ElementType type,
                      int64_t channels) {
  std::vector<int64_t> dims;
  if (channels > 0) dims.push_back(channels);
  const auto count = static_cast<size_t>(std::max<int64_t>(1, channels));
  const size_t bytes = type == ElementType::kInt4 ? divide_up<size_t>(count, 2) : count;
  const auto zero = static_cast<uint8_t>(type == ElementType::kUint8 ? kZeroByte : 0);
  return to.numbers(name + "/zero", type, dims, std::vector<uint8_t>(bytes, zero));
}

std::string scales_name(const std::string& weights, const LayerNumbers& layer) {
  return weights + (layer.has_one_scale() ? "/scale" : "/scales");
}

using TensorsByName = std::map<std::string, const TensorData*>;

Result<const TensorData*> find(const TensorsByName& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return invalid_input("tensor '" + name + "' is missing");
  return found->second;
}

// The shift of the file's weights: its scales are larger than the layer's by that power of two.
Result<int> shift_of(const TensorData& scales, const LayerNumbers& layer) {
  float scale = 0;
  if (scales.type == ElementType::kFloat && scales.bytes.size() >= sizeof(float)) {
    std::memcpy(&scale, scales.bytes.data(), sizeof(float));
  }
  for (int shift = 0; shift <= kMostWeightShift; ++shift) {
    if (scale == std::ldexp(layer.scales[0], shift)) return shift;
  }
  return invalid_input("tensor '" + scales.name + "' is not as it was exported");
}

Result<std::vector<int8_t>> recovered(const Parameter& parameter, const LayerNumbers& layer,
                                      const TensorsByName& tensors) {
  MANTISSA_ASSIGN(const TensorData* tensor, find(tensors, parameter.name));
  MANTISSA_ASSIGN(const TensorData* scales, find(tensors, scales_name(parameter.name, layer)));
  MANTISSA_ASSIGN(const int shift, shift_of(*scales, layer));
  const bool is_known = tensor->type == ElementType::kInt8 || tensor->type == ElementType::kUint8 ||
                        tensor->type == ElementType::kInt4;
  const Error other = invalid_input("tensor '" + parameter.name + "' is not as it was exported");
  if (!is_known || tensor->dims != layer.dims) return other;
  std::vector<int8_t> weights(static_cast<size_t>(parameter.shape.count()));
  const int64_t row = parameter.shape.count() / layer.channels;
  for (int64_t i = 0; i < std::ssize(weights); ++i) {
    const auto weight = weight_at(*tensor, place(parameter.shape, layer, i), shift);
    if (!weight) return other;
    const bool is_turned = layer.turned[static_cast<size_t>(i / row)];
    weights[static_cast<size_t>(i)] = static_cast<int8_t>(is_turned ? -*weight : *weight);
  }
  return weights;
}

}  // namespace

std::string real_weights(const Parameter& parameter) { return parameter.name + "/real"; }

WeightsForm weights_form(const LayerNumbers& layer, ExportTarget target, int most_input) {
  if (target == ExportTarget::kPortable) {
    const int shift = common_shift(layer.weights);
    if (layer.most_weight >> shift <= kMostInt4) return {ElementType::kInt4, shift};
  }
  // Not shifted: ONNX Runtime's integer kernels take the bias to be in units of input times weight.
  const bool saturates = 2 * most_input * layer.most_weight > kMostPair;
  return {saturates ? ElementType::kUint8 : ElementType::kInt8, 0};
}

std::string add_weights(ExportBuilder& to, const Parameter& parameter, const LayerNumbers& layer,
                        const WeightsForm& form) {
  const std::string& name = parameter.name;
  const bool one_scale = layer.has_one_scale();
  std::vector<float> scales = layer.scales;
  if (one_scale) scales.resize(1);
  for (float& scale : scales) scale = std::ldexp(scale, form.shift);
  const std::vector<int64_t> channels = {layer.channels};
  to.numbers(name, form.type, layer.dims, stored(layer, parameter.shape, form));
  to.numbers(scales_name(name, layer), ElementType::kFloat,
             one_scale ? std::vector<int64_t>() : channels, scales);
  std::vector<NodeAttribute> attributes;
  if (!one_scale) attributes.push_back({"axis", int64_t{layer.is_transposed ? 1 : 0}});
  return to.add(
      "DequantizeLinear", real_weights(parameter),
      {name, scales_name(name, layer), add_zeros(to, name, form.type, one_scale ? 0 : channels[0])},
      std::move(attributes));
}

Result<std::vector<std::vector<int8_t>>> recover_weights(const ExportedNetwork& network,
                                                         const ModelData& model) {
  TensorsByName tensors;
  for (const TensorData& tensor : model.graph.initialisers) tensors.emplace(tensor.name, &tensor);
  const Graph& graph = *network.graph;
  std::vector<std::vector<int8_t>> weights(graph.parameters.size());
  for (const Node& node : graph.nodes) {
    if (node.parameters.empty()) continue;
    const Parameter& parameter = graph.parameters[node.parameters[0]];
    if (parameter.storage != Storage::kWeights) continue;
    const auto exponent = [&](int value) { return network.exponents[static_cast<size_t>(value)]; };
    MANTISSA_ASSIGN(
        const LayerNumbers layer,
        layer_numbers(network, node, {exponent(node.inputs[0]), exponent(node.outputs[0])}));
    MANTISSA_ASSIGN(weights[static_cast<size_t>(node.parameters[0])],
                    recovered(parameter, layer, tensors));
  }
  return weights;
}

}  // namespace mantissa::onnx
