// Linear layers, of vectors and of each position of rows: Gemm, and MatMul with a constant.
#include <algorithm>
#include <string>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// The matrix of an ONNX layer as ours has it, [out, in], and a bias; empty: there is none.
struct Layer {
  std::vector<double> weights, bias;
  int64_t out = 0, in = 0;
  const TensorData *tensor = nullptr, *bias_tensor = nullptr;
};

Result<Layer> layer_of(const ImportContext& context, const NodeData& node, bool by_output) {
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(*tensor));
  if (tensor->dims.size() != 2) {
    return invalid_input("its weights have " + std::to_string(tensor->dims.size()) +
                         " dimensions, not 2");
  }
  Layer layer{.weights = std::move(numbers),
              .bias = {},
              .out = tensor->dims[by_output ? 0 : 1],
              .in = tensor->dims[by_output ? 1 : 0],
              .tensor = tensor};
  if (by_output) return layer;
  const std::vector<double> by_input = layer.weights;
  for (int64_t o = 0; o < layer.out; ++o) {
    for (int64_t i = 0; i < layer.in; ++i) {
      layer.weights[o * layer.in + i] = by_input[i * layer.out + o];
    }
  }
  return layer;
}

// The value of an embedding that has these weights as its table; -1: there is none.
int embedding_with(const ImportContext& context, const Layer& layer) {
  const Graph& graph = context.builder.graph();
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::kEmbedding) continue;
    const std::string& name = graph.parameters[node.parameters[0]].name;
    for (const ImportedParameter& parameter : context.parameters) {
      if (parameter.name != name || parameter.shape != Shape{layer.out, layer.in}) continue;
      const bool same =
          std::equal(layer.weights.begin(), layer.weights.end(), parameter.floats.begin(),
                     [](double a, float b) { return static_cast<float>(a) == b; });
      if (same) return node.outputs[0];
    }
  }
  return -1;
}

Status check_channels(const Layer& layer, int64_t channels) {
  if (channels == layer.in) return {};
  return invalid_input("its weights are for " + std::to_string(layer.in) +
                       " channels, and its input has " + std::to_string(channels));
}

// The value that the layer reads, with the layout of its result. The weights take the value's
// factors, and the order of its elements.
Result<Imported> take_input(ImportContext& context, Imported value, Layer& layer) {
  if (value.form == Form::kRows) {
    MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
    MANTISSA_RETURN_IF_ERROR(check_channels(layer, channels));
    for (double& weight : layer.weights) weight *= value.scale.empty() ? 1 : value.scale[0];
    value.scale.clear();
    value.layout.resize_last(channels, layer.out);
    return value;
  }
  MANTISSA_ASSIGN(const Vector vector, vector_of(context, value, true));
  MANTISSA_RETURN_IF_ERROR(check_channels(layer, value.layout.count()));
  const std::vector<double> in_order = layer.weights;
  for (int64_t o = 0; o < layer.out; ++o) {
    for (int64_t i = 0; i < layer.in; ++i) {
      const int64_t place = vector.places.empty() ? i : vector.places[i];
      layer.weights[o * layer.in + place] = in_order[o * layer.in + i] * vector.scale_at(place);
    }
  }
  return Imported{vector.value, Layout::vector(layer.out), {}};
}

// Rows get weights for their own number of inputs, and the bits that their readers want.
Attributes attributes_of(const ImportContext& context, const Layer& layer, Form form,
                         const std::string& result) {
  // The last layer of a classifier starts with small logits, if its weights are fresh.
  std::vector<Attributes::Item> items = {{"channels", layer.out},
                                         {"bias", int64_t{!layer.bias.empty()}},
                                         {"classifier", context.results.contains(result)}};
  if (form == Form::kRows) {
    items.emplace_back("initialiser", "fan-in");
    items.emplace_back("least_bits", least_bits(context, result));
  }
  return Attributes(std::move(items));
}

Status add_linear(ImportContext& context, const NodeData& node, const Imported& input,
                  Layer layer) {
  const bool is_rows = input.form == Form::kRows;
  MANTISSA_ASSIGN(Imported value, take_input(context, input, layer));
  const int64_t rank = std::ssize(value.layout.dims());
  const Channels channels =
      is_rows ? Channels{layer.out, rank, rank - 1} : Channels{layer.out, rank + 1};
  const Affine affine = absorb_affine(context, node.outputs[0], channels, !is_rows);
  if (is_rows && layer.bias.empty() && affine.last_summand != nullptr) {
    layer.bias.assign(affine.summands.size(), 0);
  }
  take_in(affine, layer.weights, layer.bias);
  const TensorData* named =
      affine.last_summand != nullptr ? affine.last_summand : layer.bias_tensor;
  const std::string name = layer_name(context, node, *layer.tensor, is_rows ? named : nullptr);
  const Attributes attributes = attributes_of(context, layer, input.form, affine.result);
  const int tied = layer.bias.empty() ? embedding_with(context, layer) : -1;
  if (tied >= 0) {
    value.value = context.builder.add_sharing(tied, ops::kLinear, name, {value.value}, attributes);
    context.notes.push_back("the layer " + name +
                            " has the weights of an embedding, and shares them");
  } else {
    std::vector<std::vector<double>> numbers = {std::move(layer.weights)};
    if (!layer.bias.empty()) numbers.push_back(std::move(layer.bias));
    MANTISSA_ASSIGN(value.value, add_node(context, ops::kLinear, name, {value.value}, attributes,
                                          std::move(numbers)));
  }
  define(context, affine.result, std::move(value));
  return {};
}

// A layer over the channels of each pixel, [N, H, W, C], is a convolution whose window is a pixel.
Status add_pointwise(ImportContext& context, const NodeData& node, Imported value, Layer layer) {
  if (!turn_channels_first(value)) {
    return invalid_input("multiplies the last axis of a picture, which is not its channels");
  }
  std::vector<double> scale;
  MANTISSA_ASSIGN(const int image, image_of(context, value, &scale));
  MANTISSA_RETURN_IF_ERROR(check_channels(layer, context.builder.shape(image).last()));
  for (size_t i = 0; i < layer.weights.size() && !scale.empty(); ++i) {
    layer.weights[i] *= scale[i % scale.size()];
  }
  const Affine affine = absorb_affine(context, node.outputs[0], {layer.out, 4, 3});
  take_in(affine, layer.weights, layer.bias);
  const std::string name = layer_name(context, node, *layer.tensor, affine.last_summand);
  const auto bias = static_cast<int64_t>(!layer.bias.empty());
  std::vector<std::vector<double>> numbers = {std::move(layer.weights)};
  if (bias != 0) numbers.push_back(std::move(layer.bias));
  MANTISSA_ASSIGN(const int result,
                  add_node(context, ops::kConvolution, name, {image},
                           {{"channels", layer.out}, {"kernel", 1}, {"bias", bias}},
                           std::move(numbers)));
  define_image(context, affine.result, result);
  turn_back(true, context.values[affine.result]);
  return {};
}

}  // namespace

Status import_gemm(ImportContext& context, const NodeData& node) {
  if (whole_of(node, "transA", 0) != 0) return invalid_input("transposes its input (transA)");
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(Layer layer, layer_of(context, node, whole_of(node, "transB", 0) != 0));
  MANTISSA_ASSIGN(layer.bias, bias_of(context, node, layer.out));
  layer.bias_tensor = constant_of(context, node, 2);
  for (double& weight : layer.weights) weight *= real_of(node, "alpha", 1);
  for (double& number : layer.bias) number *= real_of(node, "beta", 1);
  return add_linear(context, node, input, std::move(layer));
}

// With a constant, a layer; of two rows, a part of attention.
Status import_matmul(ImportContext& context, const NodeData& node) {
  if (scores_of(context, node, 0) != nullptr) return import_attention(context, node);
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  if (input.form == Form::kRows && constant_of(context, node, 1) == nullptr) {
    return import_scores(context, node);
  }
  MANTISSA_ASSIGN(Layer layer, layer_of(context, node, false));
  if (input.form == Form::kImage && input.layout.dims().size() == 3) {
    return add_pointwise(context, node, input, std::move(layer));
  }
  return add_linear(context, node, input, std::move(layer));
}

}  // namespace mantissa::onnx
