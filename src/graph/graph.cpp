#include "graph/graph.h"

#include <algorithm>
#include <cassert>

#include "graph/op.h"

namespace mantissa {
namespace {

std::vector<Shape> shapes_of(const Graph& graph, const std::vector<int>& values) {
  std::vector<Shape> shapes;
  for (const int value : values) shapes.push_back(graph.values[value].shape);
  return shapes;
}

Error in_node(const Node& node, const std::string& what) {
  return invalid_input("node '" + node.name + "' (" + node.op->name + "): " + what);
}

}  // namespace

bool is_trained(ParameterRole role) {
  return role == ParameterRole::kWeights || role == ParameterRole::kBias ||
         role == ParameterRole::kScale || role == ParameterRole::kOffset;
}

int64_t Graph::trained_parameters() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters) {
    if (is_trained(parameter.role)) count += parameter.shape.count();
  }
  return count;
}

std::vector<int> Graph::readers(int value) const {
  std::vector<int> found;
  for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
    const auto& inputs = nodes[node].inputs;
    if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) found.push_back(node);
  }
  return found;
}

GraphBuilder::GraphBuilder(std::string name, Shape input_shape) {
  graph_.name = std::move(name);
  graph_.values.push_back({"input", input_shape, -1});
  graph_.input = 0;
}

int GraphBuilder::add(const Op& op, std::string name, std::vector<int> inputs,
                      const Attributes& attributes) {
  Node node{std::move(name), &op, {}, std::move(inputs), -1, {}};
  Result<Attributes> completed = complete(attributes, op.attributes);
  if (!completed.ok()) {
    if (status_.ok()) status_ = in_node(node, completed.error().message);
    return graph_.input;
  }
  node.attributes = std::move(*completed);
  const std::vector<Shape> shapes = shapes_of(graph_, node.inputs);
  const Result<Shape> shape = op.infer_shape(node.attributes, shapes);
  if (!shape.ok()) {
    if (status_.ok()) status_ = in_node(node, shape.error().message);
    return graph_.input;
  }
  if (op.parameters != nullptr) {
    for (ParameterSpec& spec : op.parameters(node.attributes, shapes)) {
      node.parameters.push_back(static_cast<int>(graph_.parameters.size()));
      graph_.parameters.push_back(
          {node.name + "." + spec.suffix, spec.shape, spec.role, spec.initialiser, spec.fan_in});
    }
  }
  node.output = static_cast<int>(graph_.values.size());
  graph_.values.push_back({node.name, *shape, static_cast<int>(graph_.nodes.size())});
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().output;
}

Result<Graph> GraphBuilder::finish(int logits) {
  if (!status_.ok()) return status_.error();
  graph_.logits = logits;
  MANTISSA_RETURN_IF_ERROR(verify(graph_));
  return std::move(graph_);
}

void replace_op(Node& node, const Op& op, const Attributes& attributes) {
  Result<Attributes> completed = complete(attributes, op.attributes);
  assert(completed.ok());
  node.op = &op;
  node.attributes = std::move(*completed);
}

Status verify(const Graph& graph) {
  const int values = static_cast<int>(graph.values.size());
  std::vector<bool> produced(values, false);
  if (graph.input < 0 || graph.input >= values) return invalid_input("the graph has no input");
  produced[graph.input] = true;
  for (const Node& node : graph.nodes) {
    for (const int input : node.inputs) {
      if (input < 0 || input >= values || !produced[input]) {
        return in_node(node, "reads a value that nothing before it produces");
      }
    }
    for (const int parameter : node.parameters) {
      if (parameter < 0 || parameter >= static_cast<int>(graph.parameters.size())) {
        return in_node(node, "refers to a parameter that does not exist");
      }
    }
    MANTISSA_ASSIGN(const Attributes completed, complete(node.attributes, node.op->attributes));
    if (completed != node.attributes) return in_node(node, "lacks attributes");
    if (node.output < 0 || node.output >= values || produced[node.output]) {
      return in_node(node, "produces a value that exists already");
    }
    MANTISSA_ASSIGN(const Shape shape,
                    node.op->infer_shape(node.attributes, shapes_of(graph, node.inputs)));
    if (shape != graph.values[node.output].shape) return in_node(node, "has another shape");
    produced[node.output] = true;
  }
  if (graph.logits < 0 || graph.logits >= values || !produced[graph.logits]) {
    return invalid_input("the graph has no result");
  }
  return {};
}

std::string to_string(const Graph& graph) {
  std::string text = graph.name + ": " + std::to_string(graph.trained_parameters()) +
                     " parameters\n  input " + to_string(graph.values[graph.input].shape) + "\n";
  for (const Node& node : graph.nodes) {
    text += "  " + node.name + " = " + node.op->name + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text += (i == 0 ? "" : ", ") + graph.values[node.inputs[i]].name;
    }
    for (const auto& [key, value] : node.attributes.items()) {
      text += ", " + key + "=" + to_string(value);
    }
    text += ") " + to_string(graph.values[node.output].shape) + "\n";
  }
  return text;
}

}  // namespace mantissa
