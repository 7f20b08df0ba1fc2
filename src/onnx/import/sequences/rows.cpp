// Layers with weights, and means, of sequences.
#include "onnx/import/sequences/rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "onnx/import/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// A matrix of an ONNX layer as ours has it, [out, in].
struct Weights {
  std::vector<double> numbers;
  int64_t out = 0, in = 0;
};

Result<Weights> weights_by_output(const TensorData& tensor, bool by_output) {
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(tensor));
  if (tensor.dims.size() != 2) {
    return invalid_input("its weights have " + std::to_string(tensor.dims.size()) +
                         " dimensions, not 2");
  }
  if (by_output) return Weights{std::move(numbers), tensor.dims[0], tensor.dims[1]};
  Weights w{std::vector<double>(numbers.size()), tensor.dims[1], tensor.dims[0]};
  for (int64_t o = 0; o < w.out; ++o) {
    for (int64_t i = 0; i < w.in; ++i) w.numbers[o * w.in + i] = numbers[i * w.out + o];
  }
  return w;
}

// The value of an embedding that has these weights as its table; -1: there is none.
int embedding_with(const ImportContext& context, const Weights& weights) {
  const Graph& graph = context.builder.graph();
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::kEmbedding) continue;
    const std::string& name = graph.parameters[node.parameters[0]].name;
    for (const ImportedParameter& parameter : context.parameters) {
      if (parameter.name != name || parameter.shape != Shape{weights.out, weights.in}) continue;
      const bool same =
          std::equal(weights.numbers.begin(), weights.numbers.end(), parameter.floats.begin(),
                     [](double a, float b) { return static_cast<float>(a) == b; });
      if (same) return node.outputs[0];
    }
  }
  return -1;
}

Status add_linear(ImportContext& context, const NodeData& node, const TensorData& tensor,
                  Weights weights, std::vector<double> bias, const TensorData* bias_tensor) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
  if (channels != weights.in) {
    return invalid_input("its weights are for " + std::to_string(weights.in) +
                         " channels, and its input has " + std::to_string(channels));
  }
  for (double& number : weights.numbers) number *= value.scale.empty() ? 1 : value.scale[0];
  value.scale.clear();
  value.layout.resize_last(channels, weights.out);
  const int64_t rank = std::ssize(value.layout.dims());
  const Affine affine =
      absorb_affine(context, node.outputs[0], {weights.out, rank, rank - 1}, false);
  if (bias.empty() && (affine.last_summand != nullptr || affine.has_summands())) {
    bias.assign(affine.summands.size(), 0);
  }
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += affine.summands[i];
  const TensorData* named = affine.last_summand != nullptr ? affine.last_summand : bias_tensor;
  const std::string name = layer_name(context, node, tensor, named);
  const Attributes attributes = {{"channels", weights.out},
                                 {"bias", int64_t{!bias.empty()}},
                                 {"classifier", context.results.contains(affine.result)},
                                 {"initialiser", "fan-in"},
                                 {"least_bits", least_bits(context, affine.result)}};
  const int tied = bias.empty() ? embedding_with(context, weights) : -1;
  if (tied >= 0) {
    value.value = context.builder.add_sharing(tied, ops::kLinear, name, {value.value}, attributes);
    context.notes.push_back("the layer " + name +
                            " has the weights of an embedding, and shares them");
  } else {
    std::vector<std::vector<double>> numbers = {std::move(weights.numbers)};
    if (!bias.empty()) numbers.push_back(std::move(bias));
    MANTISSA_ASSIGN(value.value, add_node(context, ops::kLinear, name, {value.value}, attributes,
                                          std::move(numbers)));
  }
  define(context, affine.result, std::move(value));
  return {};
}

// The input's number for each channel. If there is no such input, the same number for all.
Result<std::vector<double>> channel_numbers(const ImportContext& context, const NodeData& node,
                                            size_t input, int64_t channels, double otherwise) {
  if (!has_input(node, input)) return std::vector(static_cast<size_t>(channels), otherwise);
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  const auto numbers = per_channel(*tensor, {channels, 1, 0});
  if (numbers) return *numbers;
  return invalid_input("has not one number for each channel");
}

}  // namespace

Result<Imported> plain_input(const ImportContext& context, const NodeData& node, size_t index) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, index));
  if (value.scale.empty()) return value;
  return invalid_input("its input has a factor; only layers with weights and attention take one");
}

Result<int64_t> channels_of(const ImportContext& context, const Imported& value) {
  const int64_t channels = context.builder.shape(value.value).last();
  Layout layout = value.layout;
  if (layout.resize_last(channels, channels)) return channels;
  return invalid_input("its input has not its " + std::to_string(channels) +
                       " channels as the last dimension");
}

Result<std::vector<int64_t>> output_dims(const ImportContext& context, const NodeData& node) {
  const auto found = context.shapes.find(node.outputs[0]);
  if (found != context.shapes.end()) return found->second;
  return invalid_input("the shape of its result is not known");
}

std::vector<const NodeData*> readers_behind(const ImportContext& context,
                                            const std::string& value) {
  constexpr std::string_view kMoves[] = {"Dropout", "Identity",  "Reshape",
                                         "Squeeze", "Transpose", "Unsqueeze"};
  std::vector<std::string> names = {value};
  std::vector<const NodeData*> all;
  for (size_t i = 0; i < names.size(); ++i) {
    if (context.results.contains(names[i])) all.push_back(nullptr);
    const auto readers = context.readers.find(names[i]);
    if (readers == context.readers.end()) continue;
    for (const NodeData* reader : readers->second) {
      const bool moves =
          std::find(std::begin(kMoves), std::end(kMoves), reader->op_type) != std::end(kMoves);
      if (moves) names.push_back(reader->outputs[0]);
      if (!moves) all.push_back(reader);
    }
  }
  return all;
}

int64_t least_bits(const ImportContext& context, const std::string& value) {
  const std::vector<const NodeData*> readers = readers_behind(context, value);
  const bool is_wide = std::any_of(readers.begin(), readers.end(), [](const NodeData* reader) {
    return reader != nullptr && (reader->op_type == "Add" || reader->op_type == "Gelu");
  });
  return is_wide ? kWideBits : 0;
}

Status import_rows_matmul(ImportContext& context, const NodeData& node) {
  if (scores_of(context, node, 0) != nullptr) return import_attention(context, node);
  if (constant_of(context, node, 1) == nullptr) return import_scores(context, node);
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(Weights weights, weights_by_output(*tensor, false));
  return add_linear(context, node, *tensor, std::move(weights), {}, nullptr);
}

Status import_rows_gemm(ImportContext& context, const NodeData& node) {
  if (whole_of(node, "transA", 0) != 0) return invalid_input("transposes its input (transA)");
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(Weights weights, weights_by_output(*tensor, whole_of(node, "transB", 0) != 0));
  for (double& number : weights.numbers) number *= real_of(node, "alpha", 1);
  std::vector<double> bias;
  const TensorData* bias_tensor = nullptr;
  if (has_input(node, 2)) {
    MANTISSA_ASSIGN(bias_tensor, weights_of(context, node, 2));
    const auto numbers = per_channel(*bias_tensor, {weights.out, 2});
    if (!numbers) return invalid_input("its bias is not one number for each channel");
    for (const double number : *numbers) bias.push_back(number * real_of(node, "beta", 1));
  }
  return add_linear(context, node, *tensor, std::move(weights), std::move(bias), bias_tensor);
}

// Layer norm, or RMS norm, which has no offset.
Status import_rows_norm(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
  const int64_t rank = std::ssize(value.layout.dims());
  const int64_t axis = whole_of(node, "axis", -1);
  if (axis != -1 && axis != rank - 1) return invalid_input("normalises over more than channels");
  MANTISSA_ASSIGN(std::vector<double> scale, channel_numbers(context, node, 1, channels, 1));
  MANTISSA_ASSIGN(std::vector<double> offset, channel_numbers(context, node, 2, channels, 0));
  const Affine affine =
      absorb_affine(context, node.outputs[0], {channels, rank, rank - 1}, !has_input(node, 1));
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] *= affine.factors[c];
    offset[c] = offset[c] * affine.factors[c] + affine.summands[c];
  }
  const bool is_rms = node.op_type == "RMSNormalization";
  if (is_rms && std::any_of(offset.begin(), offset.end(), [](double x) { return x != 0; })) {
    return invalid_input("has an offset behind it, which RMS norm has not here");
  }
  const TensorData* tensor = constant_of(context, node, 1);
  const std::string name =
      tensor == nullptr ? node_name(context, node) : layer_name(context, node, *tensor);
  std::vector<std::vector<double>> numbers = {std::move(scale)};
  if (!is_rms) numbers.push_back(std::move(offset));
  MANTISSA_ASSIGN(value.value,
                  add_node(context, is_rms ? ops::kRmsNorm : ops::kLayerNorm, name, {value.value},
                           {{"epsilon", real_of(node, "epsilon", 1e-5)},
                            {"least_bits", least_bits(context, affine.result)}},
                           std::move(numbers)));
  define(context, affine.result, std::move(value));
  return {};
}

// Over all positions.
Status import_rows_mean(ImportContext& context, const NodeData& node) {
  MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const auto axes, list_of(context, node, 1, "axes"));
  const Shape shape = context.builder.shape(value.value);
  const std::vector<int64_t> dims = value.layout.dims();
  int64_t axis = axes && axes->size() == 1 ? axes->front() : INT64_MAX;
  if (axis < 0) axis += std::ssize(dims);
  const bool over_positions = shape.rank == 2 && axis >= 0 && axis < std::ssize(dims) &&
                              dims[axis] == shape[0] &&
                              value.layout.step_of(static_cast<size_t>(axis)) == shape[1];
  if (!over_positions || !value.layout.narrow(static_cast<size_t>(axis), 1)) {
    return invalid_input("is a mean of something else than all positions");
  }
  MANTISSA_ASSIGN(const int image,
                  add_node(context, ops::kReshape, new_name(context, "reshape"), {value.value},
                           {{"height", shape[0]}, {"width", int64_t{1}}, {"channels", shape[1]}}));
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kGlobalAveragePool, node_name(context, node), {image}));
  MANTISSA_ASSIGN(const std::vector<int64_t> to, output_dims(context, node));
  if (!value.layout.reshape(to)) return invalid_input("has a result of unexpected dimensions");
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status import_rows_gelu(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  if (text_of(node, "approximate", "none") != "none") {
    constexpr const char* kNote =
        "GELU is computed exactly, not by the model's approximation with tanh: they differ by up "
        "to "
        "0.0005";
    if (std::find(context.notes.begin(), context.notes.end(), kNote) == context.notes.end()) {
      context.notes.emplace_back(kNote);
    }
  }
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kGelu, node_name(context, node), {value.value}));
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace mantissa::onnx
