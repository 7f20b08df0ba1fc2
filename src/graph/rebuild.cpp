#include "graph/rebuild.h"

#include <algorithm>
#include <map>
#include <string>

#include "graph/sharing.h"

namespace mantissa {
namespace {

class Rebuild {
 public:
  Rebuild(const Graph& network, const GraphChanges& changes)
      : network_(network),
        changes_(changes),
        builder_(network.name),
        readers_(readers_of(network)),
        made_(network.values.size(), -1),
        read_(network.values.size(), -1) {}

  Result<Graph> run() {
    for (size_t value = 0; value < network_.values.size(); ++value) add_entry(value);
    std::vector<int> outputs;
    for (const int output : network_.outputs) outputs.push_back(read_[output]);
    MANTISSA_ASSIGN(Graph graph, builder_.finish(outputs));
    keep_properties(graph);
    return graph;
  }

 private:
  // In the order of values, which agrees with the order of nodes.
  void add_entry(size_t index) {
    const Value& value = network_.values[index];
    if (value.producer >= 0) {
      if (value.port == 0) add_node(value.producer);
    } else if (changes_.drops_losses && is_for_losses(static_cast<int>(index))) {
      return;
    } else if (value.element == Element::kNumber) {
      read_[index] = builder_.add_numbers(value.name, value.shape, value.exponent);
    } else {
      const Element element = value.type == DataType::kUint8 ? Element::kMantissa : value.element;
      read_[index] = builder_.add_input(value.name, value.shape, element);
    }
  }

  // Whether losses alone read an input.
  bool is_for_losses(int input) const {
    const auto& outputs = network_.outputs;
    return std::find(outputs.begin(), outputs.end(), input) == outputs.end() &&
           std::all_of(readers_[input].begin(), readers_[input].end(),
                       [&](int node) { return network_.is_loss(node); });
  }

  void add_node(int n) {
    const Node& node = network_.nodes[n];
    if (changes_.drops_losses && network_.is_loss(n)) return;
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(read_[input]);
    Attributes attributes = node.attributes;
    if (changes_.before) changes_.before(builder_, n, inputs, attributes);
    if (network_.is_loss(n)) return builder_.add_loss(*node.op, node.name, inputs, attributes);
    std::vector<int> outputs;
    int with = changes_.shares_with ? changes_.shares_with(n) : -1;
    if (const int owner = parameter_owner(network_, n); with < 0 && owner >= 0) {
      with = made_[network_.nodes[owner].outputs[0]];
    }
    if (with >= 0) {
      outputs = {builder_.add_sharing(with, *node.op, node.name, inputs, attributes)};
    } else {
      outputs = builder_.add_all(*node.op, node.name, inputs, attributes);
    }
    for (size_t i = 0; i < std::min(outputs.size(), node.outputs.size()); ++i) {
      made_[node.outputs[i]] = read_[node.outputs[i]] = outputs[i];
    }
    if (changes_.behind) {
      read_[node.outputs[0]] = changes_.behind(builder_, n, made_[node.outputs[0]]);
    }
  }

  void keep_properties(Graph& graph) const {
    std::map<std::string, const Parameter*> before;
    for (const Parameter& parameter : network_.parameters) before[parameter.name] = &parameter;
    for (Parameter& parameter : graph.parameters) {
      const auto found = before.find(parameter.name);
      const bool is_never_trained = !parameter.trained;
      if (found == before.end() || is_never_trained) continue;
      take_properties(*found->second, parameter);
    }
  }

  const Graph& network_;
  const GraphChanges& changes_;
  GraphBuilder builder_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> made_, read_;  // by value: its node's output, and the value that its readers get
};

}  // namespace

void take_properties(const Parameter& before, Parameter& parameter) {
  parameter.trained = before.trained;
  parameter.decays = before.decays;
  parameter.rate_factor = before.rate_factor;
}

Result<Graph> rebuilt(const Graph& network, const GraphChanges& changes) {
  return Rebuild(network, changes).run();
}

}  // namespace mantissa
