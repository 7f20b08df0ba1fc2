// Biases that are computed, and zero: PyTorch's exporter gives them to convolutions over three axes
// that have none.
#include <algorithm>
#include <map>

#include "onnx/files/node_values.h"
#include "onnx/import/rewrite/rewrite.h"

namespace mantissa::onnx {
namespace {

bool is_zero(const TensorData& tensor) {
  const auto numbers = numbers_of(tensor);
  return numbers.ok() &&
         std::all_of(numbers->begin(), numbers->end(), [](double number) { return number == 0; });
}

}  // namespace

void leave_out_zero_biases(GraphData& graph) {
  std::map<std::string, const NodeData*> makers;
  std::map<std::string, const TensorData*> constants;
  for (const TensorData& tensor : graph.initialisers) constants[tensor.name] = &tensor;
  for (const NodeData& node : graph.nodes) {
    const bool spreads = node.op_type == "CastLike" || node.op_type == "Expand";
    if (spreads && has_input(node, 0) && !node.outputs.empty()) makers[node.outputs[0]] = &node;
  }
  for (NodeData& node : graph.nodes) {
    if (node.op_type != "Conv" || !has_input(node, 2) || !makers.contains(node.inputs[2])) continue;
    std::string source = node.inputs[2];
    for (size_t steps = 0; makers.contains(source) && steps < makers.size(); ++steps) {
      source = makers[source]->inputs[0];
    }
    const auto found = constants.find(source);
    if (found != constants.end() && is_zero(*found->second)) node.inputs.resize(2);
  }
}

}  // namespace mantissa::onnx
