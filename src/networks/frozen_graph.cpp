#include "networks/frozen_graph.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "networks/tie_free_graph.h"
#include "ops/loss.h"
#include "ops/ops.h"
#include "plan/programs/grids.h"

namespace mantissa {
namespace {

// Each node with the operator that stands for its own, and that one's parameters.
Graph with_frozen_operators(const Graph& graph) {
  Graph frozen = graph;
  frozen.parameters.clear();
  std::map<int, int> moved;  // the graph's parameters to the frozen network's
  const auto add = [&](Node& node, Parameter parameter) {
    node.parameters.push_back(static_cast<int>(frozen.parameters.size()));
    frozen.parameters.push_back(std::move(parameter));
  };
  for (const int loss : frozen.losses) ops::take_plain_loss(frozen.nodes[loss]);
  for (Node& node : frozen.nodes) {
    const std::vector<int> old = std::exchange(node.parameters, {});
    if (node.op->frozen != nullptr) {
      const Attributes attributes = attributes_of(*node.op->frozen, node.attributes);
      replace_op(node, *node.op->frozen, attributes);
      if (node.op->parameters == nullptr) continue;
      for (Parameter& parameter : node.op->parameters(
               node.attributes, std::span(&graph.values[node.inputs[0]].shape, 1))) {
        parameter.name = node.name + "." + parameter.name;
        add(node, std::move(parameter));
      }
      continue;
    }
    for (const int parameter : old) {
      const auto known = moved.find(parameter);
      if (known != moved.end()) {
        node.parameters.push_back(known->second);
        continue;
      }
      add(node, graph.parameters[parameter]);
      moved[parameter] = node.parameters.back();
    }
  }
  return frozen;
}

const Op* rescaled_op(const Op* op) {
  if (op == &ops::kConvolution) return &ops::kRescaledConvolution;
  return op == &ops::kLinear ? &ops::kRescaledLinear : nullptr;
}

// Fuses layers with the nodes after them.
class Rescaling {
 public:
  explicit Rescaling(const Graph& graph) : graph_(graph), readers_(readers_of(graph)) {}

  Graph run() {
    find_chains();
    move_values();
    result_.name = graph_.name;
    for (int n = 0; n < std::ssize(graph_.nodes); ++n) {
      if (graph_.is_loss(n)) result_.losses.push_back(static_cast<int>(result_.nodes.size()));
      if (!joins_another_[n]) result_.nodes.push_back(moved_node(n));
    }
    for (int n = 0; n < std::ssize(result_.nodes); ++n) {
      for (const int output : result_.nodes[n].outputs) result_.values[output].producer = n;
    }
    return std::move(result_);
  }

 private:
  // The only reader of a node's output if it has that operator, else -1.
  int reader(int node, const Op& op) const {
    const int output = graph_.nodes[node].outputs[0];
    const bool one = readers_[output].size() == 1 && !graph_.is_output(output);
    return one && graph_.nodes[readers_[output][0]].op == &op ? readers_[output][0] : -1;
  }

  bool shares_parameters(const Node& node) const {
    return std::count_if(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& other) {
             return !other.parameters.empty() && other.parameters[0] == node.parameters[0];
           }) > 1;
  }

  // The rescaled form has weights of 8 bits.
  bool keeps_blocks(const Node& node) const {
    return graph_.parameters[node.parameters[0]].storage == Storage::kBlocks;
  }

  void find_chains() {
    last_.assign(graph_.nodes.size(), -1);
    joins_another_.assign(graph_.nodes.size(), false);
    for (int n = 0; n < std::ssize(graph_.nodes); ++n) {
      if (rescaled_op(graph_.nodes[n].op) == nullptr || shares_parameters(graph_.nodes[n]))
        continue;
      const int norm = reader(n, ops::kScaleOffset);
      if (norm < 0 || keeps_blocks(graph_.nodes[n])) continue;
      const int relu6 = reader(norm, ops::kRelu6);
      last_[n] = relu6 >= 0 ? relu6 : norm;
      joins_another_[norm] = true;
      if (relu6 >= 0) joins_another_[relu6] = true;
    }
  }

  // All values but those within a chain.
  void move_values() {
    std::vector<bool> inner(graph_.values.size(), false);
    for (int n = 0; n < std::ssize(graph_.nodes); ++n) {
      if (last_[n] < 0 && !joins_another_[n]) continue;
      for (const int output : graph_.nodes[n].outputs) inner[output] = true;
    }
    for (const int last : last_) {
      if (last >= 0) inner[graph_.nodes[last].outputs[0]] = false;
    }
    for (int value = 0; value < std::ssize(graph_.values); ++value) {
      values_.push_back(inner[value] ? -1 : static_cast<int>(result_.values.size()));
      if (!inner[value]) result_.values.push_back(graph_.values[value]);
    }
    for (const int input : graph_.inputs) result_.inputs.push_back(values_[input]);
    for (const int output : graph_.outputs) result_.outputs.push_back(values_[output]);
  }

  int moved_parameter(int parameter) {
    const auto [place, is_new] =
        parameters_.try_emplace(parameter, static_cast<int>(result_.parameters.size()));
    if (is_new) result_.parameters.push_back(graph_.parameters[parameter]);
    return place->second;
  }

  Node moved_node(int n) {
    Node node = graph_.nodes[n];
    for (int& input : node.inputs) input = values_[input];
    if (last_[n] >= 0) return joined(std::move(node), n);
    for (int& output : node.outputs) output = values_[output];
    for (int& parameter : node.parameters) parameter = moved_parameter(parameter);
    if (node.op == &ops::kGlobalAveragePool) replace_op(node, ops::kRescaledGlobalAverage);
    if (node.op == &ops::kAveragePool) {
      const Attributes attributes = node.attributes;
      replace_op(node, ops::kExactAveragePool, attributes);
    }
    return node;
  }

  Node joined(Node node, int n) {
    const int weights = moved_parameter(node.parameters[0]);
    result_.parameters[weights].grid = {};
    std::vector<Attributes::Item> attributes;
    for (const Attributes::Item& item : node.attributes.items()) {
      // Weights of few bits are stored in 8 (infer/freeze.cpp).
      const bool is_of_training = item.first == "bias" || item.first == "classifier" ||
                                  item.first == "weight_bits" || item.first == "weight_exponent" ||
                                  item.first == "weight_tanh" || item.first == "weight_range" ||
                                  item.first == "weight_stops" || item.first == "weight_blocks" ||
                                  item.first == "least_bits" || item.first == "input_bits" ||
                                  item.first == "initialiser";
      if (!is_of_training) attributes.push_back(item);
    }
    attributes.emplace_back("relu6", int64_t{graph_.nodes[last_[n]].op == &ops::kRelu6 ? 1 : 0});
    replace_op(node, *rescaled_op(node.op), Attributes(std::move(attributes)));
    node.outputs = {values_[graph_.nodes[last_[n]].outputs[0]]};
    node.parameters = {weights};
    const Shape& input = graph_.values[graph_.nodes[n].inputs[0]].shape;
    std::vector<Parameter> own = node.op->parameters(node.attributes, std::span(&input, 1));
    for (size_t i = 1; i < own.size(); ++i) {
      own[i].name = node.name + "." + own[i].name;
      node.parameters.push_back(static_cast<int>(result_.parameters.size()));
      result_.parameters.push_back(std::move(own[i]));
    }
    return node;
  }

  const Graph& graph_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> last_;            // by node: the last of the chain that it begins; -1: none
  std::vector<bool> joins_another_;  // by node
  std::vector<int> values_;          // to the result's values; -1: within a chain
  std::map<int, int> parameters_;    // to the result's parameters
  Graph result_;
};

}  // namespace

Attributes attributes_of(const Op& op, const Attributes& attributes) {
  std::vector<Attributes::Item> items;
  for (const Attributes::Item& item : attributes.items()) {
    const bool has = std::ranges::any_of(
        op.attributes.specs, [&](const AttributeSpec& spec) { return item.first == spec.name; });
    if (has) items.push_back(item);
  }
  return Attributes(std::move(items));
}

FrozenForm frozen_form(const Graph& graph, const Format& format) {
  if (format.is_float()) return FrozenForm::kScaleOffset;
  const Grids widths = grids(graph, format);
  const auto is_byte = [](const Grid& grid) { return grid.bits <= 8; };
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const bool is_weights = graph.parameters[i].storage == Storage::kWeights;
    if (is_weights && !is_byte(widths.parameters[i])) return FrozenForm::kScaleOffset;
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const bool is_mantissa = graph.values[i].element == Element::kMantissa;
    if (is_mantissa && !is_byte(widths.values[i])) return FrozenForm::kScaleOffset;
  }
  return format.even_ties ? FrozenForm::kRescaled : FrozenForm::kTieFree;
}

Status check_form(const Graph& graph, FrozenForm form) {
  if (form != FrozenForm::kTieFree) return {};
  const auto found = tie_free_graph(freeze_graph(graph, FrozenForm::kRescaled));
  return found.ok() ? Status{}
                    : invalid_input(graph.name + ": with ties=up, " + found.error().message);
}

Graph freeze_graph(const Graph& graph, FrozenForm form) {
  Graph frozen = with_frozen_operators(graph);
  if (form == FrozenForm::kScaleOffset) return frozen;
  Graph rescaled = Rescaling(frozen).run();
  return form == FrozenForm::kRescaled ? rescaled : std::move(tie_free_graph(rescaled)->graph);
}

}  // namespace mantissa
