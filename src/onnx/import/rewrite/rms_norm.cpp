// RMS norm, a value over the root of the mean of its squares, as exporters spell it out.
#include "onnx/import/rewrite/spelled_out.h"

namespace mantissa::onnx {
namespace {

struct RootMeanSquare {
  double epsilon = 0;
  int64_t axis = 0;
};

// The added epsilon and the axis, if the value is sqrt(mean(x^2) + epsilon).
bool is_root(const SpelledOut& graph, const std::string& value, const std::string& x,
             RootMeanSquare& found) {
  const NodeData* root = graph.maker(value, "Sqrt");
  const NodeData* sum = root == nullptr ? nullptr : graph.maker(root->inputs[0], "Add", 2);
  for (const size_t i : {0, 1}) {
    const NodeData* mean = sum == nullptr ? nullptr : graph.maker(sum->inputs[i], "ReduceMean");
    if (mean == nullptr || !graph.is_square(mean->inputs[0], x)) continue;
    const std::vector<int64_t> axes = graph.axes(*mean);
    found = {graph.number(sum->inputs[1 - i]), axes.size() == 1 ? axes[0] : 0};
    if (found.epsilon > 0) return true;
  }
  return false;
}

// x if the value is 1 / x.
std::string inverted(const SpelledOut& graph, const std::string& value) {
  if (const NodeData* inverse = graph.maker(value, "Reciprocal")) return inverse->inputs[0];
  const NodeData* quotient = graph.maker(value, "Div", 2);
  const bool is_inverse = quotient != nullptr && graph.number(quotient->inputs[0]) == 1;
  return is_inverse ? quotient->inputs[1] : "";
}

}  // namespace

bool join_rms_norm(SpelledOut& graph, NodeData& node) {
  if (node.inputs.size() != 2) return false;
  for (const size_t i : {0, 1}) {
    const std::string x = node.inputs[i];
    std::string root = node.op_type == "Div" && i == 0 ? node.inputs[1] : "";
    if (node.op_type == "Mul") root = inverted(graph, node.inputs[1 - i]);
    RootMeanSquare found;
    if (root.empty() || !is_root(graph, root, x, found)) continue;
    graph.become(node, "RMSNormalization", x,
                 {{"epsilon", static_cast<float>(found.epsilon)}, {"axis", found.axis}});
    return true;
  }
  return false;
}

}  // namespace mantissa::onnx
