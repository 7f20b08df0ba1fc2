#include "plan/linear_values.h"

#include <algorithm>
#include <map>

#include "ops/ops.h"

namespace mantissa {
namespace {

// Whether the op wants activations: it multiplies mantissas as they are, or is left out when
// frozen.
bool takes_activations(const Op& op) {
  const bool left_out = op.frozen != nullptr && op.frozen->traits.view;
  return op.traits.may_leave_wide || left_out || &op == &ops::kIdentity;
}

bool only_activations_wanted(const Graph& graph, int value) {
  const std::vector<int> readers = graph.readers(value);
  return std::all_of(readers.begin(), readers.end(), [&](int reader) {
    const Node& node = graph.nodes[reader];
    if (takes_activations(*node.op)) return true;
    return node.op->traits.view && only_activations_wanted(graph, node.output);
  });
}

}  // namespace

int value_bits(const Graph& graph, const Format& format, int value) {
  const int narrow = format.activation_bits, wide = format.linear_value_bits();
  const int producer = graph.values[value].producer;
  if (producer < 0 || wide <= narrow) return narrow;
  const Node& node = graph.nodes[producer];
  if (node.op->traits.may_leave_wide) return only_activations_wanted(graph, value) ? narrow : wide;
  if (!node.op->traits.keeps_exponent && !node.op->traits.view) return narrow;
  int bits = narrow;
  for (const int input : node.inputs) bits = std::max(bits, value_bits(graph, format, input));
  return bits;
}

Graph with_requantised_inputs(const Graph& graph, const Format& format) {
  if (format.is_float() || format.linear_value_bits() <= format.activation_bits) return graph;
  Graph result = graph;
  result.nodes.clear();
  std::map<int, int> requantised;  // values to their activations
  const auto activations_of = [&](int value) {
    const auto [found, is_new] =
        requantised.try_emplace(value, static_cast<int>(result.values.size()));
    if (is_new) {
      const std::string name = graph.values[value].name + ".activations";
      result.values.push_back({name, graph.values[value].shape});
      result.nodes.push_back({name, &ops::kRequantise, {}, {value}, found->second, {}});
    }
    return found->second;
  };
  for (Node node : graph.nodes) {
    for (int& input : node.inputs) {
      if (!takes_activations(*node.op)) continue;
      if (value_bits(graph, format, input) > format.activation_bits) input = activations_of(input);
    }
    result.nodes.push_back(std::move(node));
  }
  for (int n = 0; n < static_cast<int>(result.nodes.size()); ++n) {
    result.values[result.nodes[n].output].producer = n;
  }
  return result;
}

Status check_linear_values(const Graph& graph, const Format& format) {
  if (format.is_float() || format.linear_value_bits() <= format.activation_bits) return {};
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    if (value_bits(graph, format, value) > format.activation_bits) return {};
  }
  return invalid_input(graph.name + ": linear=" + std::to_string(format.linear_bits) +
                       " changes nothing: linear and convolution read all results of linear and "
                       "convolution; leave it out");
}

}  // namespace mantissa
