#include "graph/input_shapes.h"

#include <string>
#include <vector>

#include "graph/op.h"

namespace mantissa {
namespace {

Status check_parameters(const Graph& graph, const Node& node, std::span<const Shape> shapes) {
  if (node.op->parameters == nullptr) return {};
  const std::vector<Parameter> wanted = node.op->parameters(node.attributes, shapes);
  for (size_t i = 0; i < std::min(wanted.size(), node.parameters.size()); ++i) {
    const Parameter& has = graph.parameters[node.parameters[i]];
    if (wanted[i].shape == has.shape) continue;
    return invalid_input("'" + has.name + "' would be " + to_string(wanted[i].shape) +
                         " instead of " + to_string(has.shape));
  }
  return {};
}

}  // namespace

Result<Graph> with_input_shapes(Graph graph, std::span<const Shape> shapes) {
  if (shapes.size() != graph.inputs.size()) {
    return invalid_input("network '" + graph.name + "' has " + std::to_string(graph.inputs.size()) +
                         " inputs, not " + std::to_string(shapes.size()));
  }
  for (size_t i = 0; i < shapes.size(); ++i) graph.values[graph.inputs[i]].shape = shapes[i];
  for (const Node& node : graph.nodes) {
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(graph.values[input].shape);
    const auto types = output_types(*node.op, node.attributes, inputs);
    const Status fits = types.ok() ? check_parameters(graph, node, inputs) : Status(types.error());
    if (!fits.ok()) return invalid_input("node '" + node.name + "': " + fits.error().message);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph.values[node.outputs[i]].shape = (*types)[i].shape;
    }
  }
  return graph;
}

}  // namespace mantissa
