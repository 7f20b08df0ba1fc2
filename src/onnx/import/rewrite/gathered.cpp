// Nodes that pick elements one by one. All elements in their order, from the flattened value, are a
// Reshape: PyTorch's newer exporter writes strides so. Whole rows at places of each example are a
// GatherND: torch.gather wants the places spread over the channels.
#include <utility>

#include "onnx/files/node_values.h"
#include "onnx/import/rewrite/spelled_out.h"

namespace mantissa::onnx {
namespace {

bool counts_from_zero(const TensorData& tensor) {
  const auto numbers = wholes_of(tensor);
  if (!numbers.ok()) return false;
  for (int64_t i = 0; i < std::ssize(*numbers); ++i) {
    if ((*numbers)[i] != i) return false;
  }
  return true;
}

}  // namespace

bool join_gathered(SpelledOut& graph, NodeData& node) {
  if (node.op_type != "Gather" || node.inputs.size() != 2) return false;
  const NodeData* flat = graph.maker(node.inputs[0], "Reshape", 2);
  const TensorData* places = graph.constant(node.inputs[1]);
  if (flat == nullptr || places == nullptr || places->dims.size() < 2 ||
      graph.wholes(flat->inputs[1]) != std::vector<int64_t>{-1} || !counts_from_zero(*places)) {
    return false;
  }
  // The examples are those of the value.
  std::vector<int64_t> shape = places->dims;
  shape[0] = 0;
  const std::string name = node.outputs[0] + " shape";
  graph.add_constant(whole_numbers(name, std::move(shape)));
  graph.become(node, "Reshape", flat->inputs[0], {});
  graph.add_input(node, name);
  return true;
}

bool join_spread_places(SpelledOut& graph, NodeData& node) {
  if (node.op_type != "GatherElements" || node.inputs.size() != 2) return false;
  const int64_t axis = whole_of(node, "axis", 0);
  const NodeData* spread = graph.maker(node.inputs[1], "Expand", 2);
  if ((axis != 1 && axis != -2) || spread == nullptr) return false;
  const std::string places = spread->inputs[0];
  if (graph.maker(places, "Unsqueeze") == nullptr) return false;
  graph.become(node, "GatherND", node.inputs[0], {{"batch_dims", int64_t{1}}});
  graph.add_input(node, places);
  return true;
}

}  // namespace mantissa::onnx
