// Constants that a model computes with, and does not train: numbers of the program that was
// exported, such as the 0.1 of sum(x) * 0.1, or the scale of a norm that has none.
#include <algorithm>
#include <string_view>

#include "onnx/import/rewrite/rewrite.h"

namespace mantissa::onnx {
namespace {

std::string_view without_digits(std::string_view name) {
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return name;
}

// Whether PyTorch's exporters name numbers of the program so, where they write them like
// parameters: "val_7", "/norm/Constant_2_output_0". Statistics are not trained either.
bool is_named_as_fixed(std::string_view name) {
  if (name.ends_with("running_mean") || name.ends_with("running_var")) return true;
  if (name.size() > 4 && without_digits(name) == "val_") return true;
  constexpr std::string_view kOutput = "_output_0";
  if (!name.ends_with(kOutput)) return false;
  name.remove_suffix(kOutput.size());
  const std::string_view first = without_digits(name);
  return name.ends_with("Constant") || (first.size() < name.size() && first.ends_with("Constant_"));
}

}  // namespace

std::set<std::string> fixed_constants(const GraphData& graph) {
  std::set<std::string> fixed;
  for (const TensorData& tensor : graph.initialisers) {
    if (is_named_as_fixed(tensor.name)) fixed.insert(tensor.name);
  }
  for (const NodeData& node : graph.nodes) {
    const bool is_constant = node.op_type == "Constant" && node.domain.empty();
    const bool follows =
        !node.inputs.empty() &&
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) {
          return input.empty() || fixed.contains(input);
        });
    if (is_constant || follows) fixed.insert(node.outputs.begin(), node.outputs.end());
  }
  return fixed;
}

}  // namespace mantissa::onnx
