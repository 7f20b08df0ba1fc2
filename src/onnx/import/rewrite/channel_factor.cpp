// A factor for each channel behind a Transpose to [N, C, H, W]: layer scale, as ConvNeXt has it.
// Before the Transpose the layer that makes the value takes it in.
#include <utility>

#include "onnx/import/rewrite/spelled_out.h"

namespace mantissa::onnx {
namespace {

bool is_to_channels_first(const NodeData& node) {
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* order = std::get_if<std::vector<int64_t>>(&attribute.value);
    if (attribute.name == "perm" && order != nullptr) {
      return *order == std::vector<int64_t>{0, 3, 1, 2};
    }
  }
  return false;
}

// The number of channels of a constant [C, 1, 1] or [1, C, 1, 1]; 0: it is none.
int64_t channels_of(const TensorData& tensor) {
  std::vector<int64_t> dims = tensor.dims;
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  return dims.size() == 3 && dims[1] == 1 && dims[2] == 1 ? dims[0] : 0;
}

}  // namespace

bool move_channel_factor(SpelledOut& graph, NodeData& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  for (const size_t i : {0, 1}) {
    const TensorData* factor = graph.constant(node.inputs[i]);
    const int64_t channels = factor == nullptr ? 0 : channels_of(*factor);
    NodeData* turn = graph.only_read_maker(node.inputs[1 - i], "Transpose");
    if (channels < 2 || turn == nullptr || !is_to_channels_first(*turn)) continue;
    TensorData last = *factor;
    last.name = node.outputs[0] + " factor";
    last.dims = {channels};
    graph.add_constant(std::move(last));
    turn->op_type = "Mul";
    turn->inputs.push_back(node.outputs[0] + " factor");
    node.inputs = {node.inputs[1 - i]};
    node.op_type = "Transpose";
    node.attributes = std::exchange(turn->attributes, {});
    return true;
  }
  return false;
}

}  // namespace mantissa::onnx
