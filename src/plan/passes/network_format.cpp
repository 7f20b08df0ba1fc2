#include "plan/passes/network_format.h"

#include <algorithm>
#include <map>

#include "ops/attributes.h"
#include "ops/ops.h"
#include "plan/programs/grids.h"

namespace mantissa {
namespace {

// Whether the backward pass of a reader, other than one node, reads the value.
bool is_read_backward(const Graph& graph, const ValueFacts& facts, int value, const Node* other) {
  const std::vector<int>& readers = facts.readers[value];
  return std::any_of(readers.begin(), readers.end(), [&](int reader) {
    const Node& node = graph.nodes[reader];
    return &node != other && (reads_backward(*node.op, Role::kInput) ||
                              (is_view(*node.op) && facts.read_backward[node.outputs[0]]));
  });
}

// The ReLU that alone reads a value, which is not the network's result; null: there is none.
Node* only_relu(Graph& graph, const ValueFacts& facts, int value) {
  const std::vector<int>& readers = facts.readers[value];
  if (graph.is_output(value) || readers.size() != 1) return nullptr;
  Node& reader = graph.nodes[readers[0]];
  return reader.op == &ops::kRelu ? &reader : nullptr;
}

// Whether keeping a batch norm's output in place of its input saves something.
bool inverting_saves(const Graph& graph, const ValueFacts& facts, const Grids& grids,
                     const Node& norm, bool relu_behind) {
  const int input = norm.inputs[0], output = norm.outputs[0];
  if (facts.read_backward[output]) return true;
  if (is_read_backward(graph, facts, input, &norm)) return false;
  constexpr int kByte = 8;
  const bool is_smaller = grids.values[output].bits <= kByte && grids.values[input].bits > kByte;
  return relu_behind || is_smaller;
}

Graph with_inverted_batch_norms(Graph graph, const Format& format) {
  // Kept channels of the input should cost little if the output only takes the input's place.
  constexpr int64_t kRoomBehindRelu = 32;
  if (format.keeps_norm_inputs) return graph;
  ValueFacts facts = value_facts(graph);
  Grids widths = grids(graph, facts, format);
  for (Node& node : graph.nodes) {
    if (node.op != &ops::kBatchNorm || node.attributes.as<ops::BatchNormAttributes>().zero_scale)
      continue;
    Node* const relu = only_relu(graph, facts, node.outputs[0]);
    if (!inverting_saves(graph, facts, widths, node, relu != nullptr)) continue;
    replace_op(node, ops::kBatchNormInverted,
               relu == nullptr ? Attributes() : Attributes{{"room", kRoomBehindRelu}});
    if (relu != nullptr) replace_op(*relu, ops::kNormRelu);
    facts = value_facts(graph);
    widths = grids(graph, facts, format);
  }
  return graph;
}

// Whether results may have more bits than activations: by the format, or by a node's request.
bool has_wide_results(const Graph& graph, const Format& format) {
  return format.has_linear_values() ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return least_bits(node) > 0; });
}

// Whether a value is written with more bits than layers take. Real numbers have none.
bool is_wider(const Grids& grids, int value) {
  const Grid& written = grids.values[value];
  return written.scaling == Scaling::kExponent && written.bits > grids.activations[value].bits;
}

// Bits up to which a node reads values as they are, where rows have exponents of their own.
int input_bits(const Node& node, const Format& format) {
  if (!format.has_row_exponents()) return 0;
  if (node.op == &ops::kLinear) return node.attributes.as<ops::LayerAttributes>().input_bits;
  if (node.op == &ops::kAttention) {
    return node.attributes.as<ops::AttentionAttributes>().input_bits;
  }
  return 0;
}

Graph with_requantised_inputs(const Graph& graph, const Format& format) {
  if (!has_wide_results(graph, format)) return graph;
  const Grids widths = grids(graph, format);
  Graph result = graph;
  result.nodes.clear();
  std::map<int, int> requantised;  // values to their activations
  const auto activations_of = [&](int value) {
    const auto [found, is_new] =
        requantised.try_emplace(value, static_cast<int>(result.values.size()));
    if (is_new) {
      const std::string name = graph.values[value].name + ".activations";
      result.values.push_back({name, graph.values[value].shape});
      result.nodes.push_back({name, &ops::kRequantise, {}, {value}, {found->second}, {}});
    }
    return found->second;
  };
  result.losses.clear();
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    Node node = graph.nodes[n];
    for (int& input : node.inputs) {
      const bool is_taken = widths.values[input].bits <= input_bits(node, format);
      const bool is_narrowed = takes_activations(*node.op) && is_wider(widths, input);
      if (is_narrowed && !is_taken) input = activations_of(input);
    }
    if (graph.is_loss(n)) result.losses.push_back(static_cast<int>(result.nodes.size()));
    result.nodes.push_back(std::move(node));
  }
  for (int n = 0; n < static_cast<int>(result.nodes.size()); ++n) {
    for (const int output : result.nodes[n].outputs) result.values[output].producer = n;
  }
  return result;
}

}  // namespace

Graph in_format(const Graph& graph, const Format& format) {
  return with_requantised_inputs(with_inverted_batch_norms(graph, format), format);
}

Status check_linear_values(const Graph& graph, const Format& format) {
  if (!format.has_linear_values()) return {};
  const Grids widths = grids(graph, format);
  for (const Node& node : graph.nodes) {
    if (may_leave_wide(*node.op) && is_wider(widths, node.outputs[0])) return {};
  }
  return invalid_input(graph.name + ": linear=" + std::to_string(format.linear_bits) +
                       " changes nothing: all results of linear and convolution have as many bits "
                       "without it, or only linear and convolution read them; leave it out");
}

Status check_inversion(const Graph& graph, const Format& format) {
  if (format.keeps_norm_inputs) return {};
  for (const Node& node : graph.nodes) {
    if (node.op == &ops::kBatchNormInverted) return {};
  }
  return invalid_input(graph.name +
                       ": inversion=yes changes nothing: there is no batch norm, or none with a "
                       "ReLU, another function or a convolution behind it; leave it out");
}

}  // namespace mantissa
