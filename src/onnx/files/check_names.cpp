#include "onnx/files/check_names.h"

#include <string_view>
#include <unordered_set>

#include "onnx/files/read_context.h"

namespace mantissa::onnx {
namespace {

// Names of a graph and, through `around`, of those that it may read.
struct KnownNames {
  std::unordered_set<std::string_view> names;
  const KnownNames* around = nullptr;

  bool has(std::string_view name) const {
    for (const KnownNames* known = this; known != nullptr; known = known->around) {
      if (known->names.contains(name)) return true;
    }
    return false;
  }
};

Status check_graph(const GraphData& graph, const KnownNames* around);

std::string describe_node(const NodeData& node) {
  return describe("node", node.name) + " (" + describe("operator", node.op_type) + ")";
}

Status check_node(const NodeData& node, KnownNames& known) {
  for (const std::string& input : node.inputs) {
    if (input.empty() || known.has(input)) continue;
    return invalid_input(describe_node(node) + " reads " + describe("value", input) +
                         ", which nothing before it makes");
  }
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    if (graph != nullptr) MANTISSA_RETURN_IF_ERROR(check_graph(**graph, &known));
  }
  for (const std::string& output : node.outputs) {
    if (output.empty() || known.names.insert(output).second) continue;
    return invalid_input(describe_node(node) + " makes " + describe("value", output) +
                         ", which is there already");
  }
  return {};
}

Status check_graph(const GraphData& graph, const KnownNames* around) {
  KnownNames known{{}, around};
  for (const TensorData& tensor : graph.initialisers) {
    if (known.names.insert(tensor.name).second) continue;
    return invalid_input(describe("initialiser", tensor.name) + " is there twice");
  }
  std::unordered_set<std::string_view> inputs;
  for (const ValueData& input : graph.inputs) {
    if (!inputs.insert(input.name).second) {
      return invalid_input(describe("input", input.name) + " is there twice");
    }
    known.names.insert(input.name);
  }
  for (const NodeData& node : graph.nodes) MANTISSA_RETURN_IF_ERROR(check_node(node, known));
  std::unordered_set<std::string_view> outputs;
  for (const ValueData& output : graph.outputs) {
    if (!outputs.insert(output.name).second) {
      return invalid_input(describe("output", output.name) + " is there twice");
    }
    if (known.has(output.name)) continue;
    return invalid_input(describe("output", output.name) + " is made by no node");
  }
  return {};
}

}  // namespace

Status check_names(const GraphData& graph) { return check_graph(graph, nullptr); }

}  // namespace mantissa::onnx
