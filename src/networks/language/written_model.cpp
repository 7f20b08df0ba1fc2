#include "networks/language/written_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "networks/language/layout_names.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

constexpr std::string_view kSum = ".lora_sum", kPart = ".lora_";

bool is_of_adapter(const Node& node) { return node.name.find(kPart) != std::string::npos; }

const Node* node_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  return found == graph.nodes.end() ? nullptr : &*found;
}

// The node that makes a value; of an adapter's sum its layer; of an input its name.
std::string source_of(const Graph& graph, int value) {
  const Value& from = graph.values[static_cast<size_t>(value)];
  if (from.producer < 0) return from.name;
  const std::string& name = graph.nodes[static_cast<size_t>(from.producer)].name;
  return name.ends_with(kSum) ? name.substr(0, name.size() - kSum.size()) : name;
}

// Whether two nodes compute the same. Bits, beginnings and the form of weights change no number of
// real arithmetic.
bool is_same_node(const Graph& a, const Node& x, const Graph& b, const Node& y) {
  if (x.name != y.name || x.op != y.op || x.inputs.size() != y.inputs.size()) return false;
  for (size_t i = 0; i < x.inputs.size(); ++i) {
    if (source_of(a, x.inputs[i]) != source_of(b, y.inputs[i])) return false;
  }
  const auto counts = [](const Attributes::Item& item) {
    return item.first != "least_bits" && item.first != "initialiser" &&
           item.first != "weight_blocks";
  };
  std::vector<Attributes::Item> of_x, of_y;
  std::ranges::copy_if(x.attributes.items(), std::back_inserter(of_x), counts);
  std::ranges::copy_if(y.attributes.items(), std::back_inserter(of_y), counts);
  return of_x == of_y;
}

bool is_same_network(const Graph& network, const Graph& wanted) {
  size_t at = 0;
  for (const Node& node : network.nodes) {
    if (is_of_adapter(node)) continue;
    if (at == wanted.nodes.size()) return false;
    if (!is_same_node(network, node, wanted, wanted.nodes[at++])) return false;
  }
  return at == wanted.nodes.size();
}

Error another_layout(const Graph& network) {
  return invalid_input("the network '" + network.name +
                       "' is no decoder in Llama's layout or GPT-2's, as import reads them");
}

// A node of this name and operator; null: there is none.
const Node* node_named(const Graph& graph, const std::string& name, const Op& op) {
  const Node* const node = node_named(graph, name);
  return node != nullptr && node->op == &op ? node : nullptr;
}

// The sizes of a layout that the attributes of the network's nodes say; unchecked. False: it is
// another.
bool take_llama_sizes(const Graph& network, DecoderSizes& sizes) {
  const auto* norm = node_named(network, "norm", ops::kRmsNorm);
  const auto* query = node_named(network, "block1.query", ops::kLinear);
  const auto* gate = node_named(network, "block1.gate", ops::kLinear);
  const auto* turned = node_named(network, "block1.turned_query", ops::kRotary);
  if (norm == nullptr || query == nullptr || gate == nullptr || turned == nullptr) return false;
  const auto& layer = query->attributes.as<ops::LayerAttributes>();
  const auto& rotary = turned->attributes.as<ops::RotaryAttributes>();
  sizes.layout = DecoderLayout::kLlama;
  sizes.head_channels = std::max<int64_t>(1, layer.channels / sizes.heads);
  sizes.query_bias = layer.bias;
  sizes.head_norms = node_named(network, "block1.query_norm", ops::kRmsNorm) != nullptr;
  sizes.inner = gate->attributes.as<ops::LayerAttributes>().channels;
  sizes.rotary_base = rotary.base;
  sizes.rotary_factors = rotary.factors;
  sizes.epsilon = norm->attributes.as<ops::RowNormAttributes>().epsilon;
  return true;
}

bool take_gpt2_sizes(const Graph& network, DecoderSizes& sizes) {
  const auto* norm = node_named(network, "norm", ops::kLayerNorm);
  const auto* table = node_named(network, "positions", ops::kPositionEmbedding);
  const auto* inner = node_named(network, "block1.linear1", ops::kLinear);
  if (norm == nullptr || table == nullptr || inner == nullptr) return false;
  sizes.layout = DecoderLayout::kGpt2;
  sizes.positions = network.parameters[static_cast<size_t>(table->parameters[0])].shape[0];
  sizes.inner = inner->attributes.as<ops::LayerAttributes>().channels;
  sizes.epsilon = norm->attributes.as<ops::RowNormAttributes>().epsilon;
  return true;
}

Result<DecoderSizes> sizes_said(const Graph& network) {
  const auto* embedding = node_named(network, "embedding", ops::kEmbedding);
  const auto* classifier = node_named(network, "classifier", ops::kLinear);
  const auto* attention = node_named(network, "block1.attention", ops::kAttention);
  if (embedding == nullptr || classifier == nullptr || attention == nullptr) {
    return another_layout(network);
  }
  DecoderSizes sizes;
  const auto& table = embedding->attributes.as<ops::EmbeddingAttributes>();
  const auto& heads = attention->attributes.as<ops::AttentionAttributes>();
  sizes.vocabulary = table.rows;
  sizes.channels = table.channels;
  sizes.heads = heads.heads;
  sizes.key_heads = heads.key_heads();
  sizes.tied = classifier->parameters == embedding->parameters;
  sizes.layers = std::ranges::count(network.nodes, &ops::kAttention, &Node::op);
  const bool is_known = take_llama_sizes(network, sizes) || take_gpt2_sizes(network, sizes);
  if (!is_known) return another_layout(network);
  return sizes;
}

int64_t sequence_of(const Graph& network) {
  return network.values[static_cast<size_t>(network.inputs[0])].shape[0];
}

Result<Graph> base_of(const Graph& network) {
  MANTISSA_ASSIGN(const DecoderSizes sizes, sizes_said(network));
  return decoder_lm(network.name, sizes, sequence_of(network));
}

const char* architecture_of(const DecoderSizes& sizes) {
  if (sizes.layout == DecoderLayout::kGpt2) return "gpt2";
  if (sizes.head_norms) return "qwen3";
  return sizes.query_bias ? "qwen2" : "llama";
}

const NamedParameter* find(std::span<const NamedParameter> list, const Parameter& parameter) {
  const auto found = std::ranges::find_if(list, [&](const NamedParameter& each) {
    return each.name == parameter.name && each.shape == parameter.shape;
  });
  return found == list.end() ? nullptr : &*found;
}

Result<const NamedParameter*> found(std::span<const NamedParameter> list,
                                    const Parameter& parameter) {
  const NamedParameter* const from = find(list, parameter);
  if (from == nullptr) {
    return invalid_input("the file has no parameter " + parameter.name + " " +
                         to_string(parameter.shape));
  }
  MANTISSA_RETURN_IF_ERROR(check_parameter(*from));
  return from;
}

template <typename T>
T number_at(std::span<const std::byte> bytes, int64_t i) {
  T number;
  std::memcpy(&number, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof number);
  return number;
}

}  // namespace

const char* weight_type_name(WeightType type) {
  constexpr std::array kNames = {"F32", "F16", "BF16", "Q8_0", "blocks"};
  return kNames[static_cast<size_t>(type)];
}

Result<DecoderSizes> decoder_sizes(const Graph& network) {
  MANTISSA_ASSIGN(const DecoderSizes sizes, sizes_said(network));
  const auto wanted = base_of(network);
  if (!wanted.ok() || !is_same_network(network, *wanted)) return another_layout(network);
  return sizes;
}

Result<Graph> without_adapters(const Graph& network) {
  if (adapters_of(network).empty()) return network;
  return base_of(network);
}

Result<WrittenModel> written_model(const Graph& network,
                                   std::span<const NamedParameter> parameters) {
  WrittenModel model;
  MANTISSA_ASSIGN(model.sizes, decoder_sizes(network));
  const DecoderLayout layout = model.sizes.layout;
  if (model.sizes.head_norms && model.sizes.query_bias) return another_layout(network);
  model.architecture = architecture_of(model.sizes);
  model.positions =
      layout == DecoderLayout::kGpt2 ? model.sizes.positions : sequence_of(network);
  MANTISSA_ASSIGN(const Graph base, base_of(network));
  for (const Parameter& parameter : base.parameters) {
    MANTISSA_ASSIGN(const NamedParameter* from, found(parameters, parameter));
    model.tensors.push_back({.name = name_in_layout(layout, parameter.name), .from = *from});
  }
  for (const Adapter& adapter : adapters_of(network)) {
    const std::string name = name_in_layout(layout, adapter.layer + ".weights");
    const auto tensor = std::ranges::find(model.tensors, name, &WrittenTensor::name);
    if (tensor == model.tensors.end()) return another_layout(network);
    MANTISSA_ASSIGN(const NamedParameter* a, found(parameters, network.parameters[adapter.a]));
    MANTISSA_ASSIGN(const NamedParameter* b, found(parameters, network.parameters[adapter.b]));
    tensor->a = real_numbers(*a);
    tensor->b = real_numbers(*b);
    tensor->factor = adapter.factor;
  }
  return model;
}

namespace {

// The numbers of a row, without the adapter.
std::vector<double> own_numbers(const WrittenTensor& tensor, int64_t row) {
  const NamedParameter& from = tensor.from;
  const int64_t columns = tensor.columns(), first = row * columns;
  if (tensor.is_in_blocks()) {
    const int64_t bytes = bytes_in_blocks(from.blocks, columns);
    return block_numbers(from.blocks, from.numbers.subspan(static_cast<size_t>(row * bytes),
                                                           static_cast<size_t>(bytes)));
  }
  const auto exponents = static_cast<int64_t>(from.exponents.size() / sizeof(int16_t));
  const int exponent =
      exponents == 0 ? 0 : number_at<int16_t>(from.exponents, exponents == 1 ? 0 : row);
  std::vector<double> numbers(static_cast<size_t>(columns));
  for (int64_t i = 0; i < columns; ++i) {
    double& number = numbers[static_cast<size_t>(i)];
    if (from.type == DataType::kFloat) {
      number = number_at<float>(from.numbers, first + i);
    } else {
      const int mantissa = from.type == DataType::kInt8
                               ? number_at<int8_t>(from.numbers, first + i)
                               : number_at<int16_t>(from.numbers, first + i);
      number = std::ldexp(mantissa, exponent);
    }
  }
  return numbers;
}

}  // namespace

void row_numbers(const WrittenTensor& tensor, int64_t row, std::span<float> numbers) {
  const int64_t columns = tensor.columns();
  std::vector<double> sums = own_numbers(tensor, row);
  const auto rank = static_cast<int64_t>(tensor.a.size()) / columns;
  for (int64_t k = 0; k < rank; ++k) {
    const double weight = tensor.factor * tensor.b[static_cast<size_t>(row * rank + k)];
    for (int64_t i = 0; i < columns; ++i) {
      sums[static_cast<size_t>(i)] += weight * tensor.a[static_cast<size_t>(k * columns + i)];
    }
  }
  std::ranges::transform(sums, numbers.begin(), [](double x) { return static_cast<float>(x); });
}

}  // namespace mantissa
