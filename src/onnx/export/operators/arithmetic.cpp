// Sums and products of bytes.
#include <cstdlib>

#include "onnx/export/operators.h"

namespace mantissa::onnx {
namespace {

// The float32 tensors of both inputs.
std::vector<std::string> both(ExportContext& context, const Node& node) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 2; ++i) {
    inputs.push_back(real(context, context.input(node, i), node.name + "/" + std::to_string(i)));
  }
  return inputs;
}

// `type` is Add or Sub.
Result<Exported> export_sum(ExportContext& context, int n, const char* type, const char* verb) {
  constexpr int kMostDistance = 16;  // from there on one of the two is rounded first
  const Node& node = context.graph.nodes[n];
  const int distance = context.input(node, 0).exponent - context.input(node, 1).exponent;
  if (std::abs(distance) > kMostDistance) {
    return invalid_input(std::string(verb) + " values whose units differ by more than 2^16");
  }
  std::vector<std::string> inputs = both(context, node);
  return quantised(context, n, context.builder.add(type, node.name + "/real", std::move(inputs)));
}

}  // namespace

Result<Exported> export_add(ExportContext& context, int n) {
  return export_sum(context, n, "Add", "adds");
}

Result<Exported> export_subtract(ExportContext& context, int n) {
  return export_sum(context, n, "Sub", "subtracts");
}

// Products of mantissas are exact in float32. A gate, one factor for each channel of an image, is
// [N, C, 1, 1].
Result<Exported> export_multiply(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape image = context.image_shape(node.inputs[0]), gate = context.shape(node.inputs[1]);
  std::vector<std::string> inputs = both(context, node);
  if (gate.rank < image.rank) {
    ExportBuilder& to = context.builder;
    inputs[1] = to.add("Reshape", node.name + "/gate",
                       {inputs[1], to.list(node.name + "/gate/shape", {0, gate[0], 1, 1})});
  }
  const bool any_signed = context.input(node, 0).is_signed() || context.input(node, 1).is_signed();
  return quantised(context, n, context.builder.add("Mul", node.name + "/real", std::move(inputs)),
                   any_signed && is_signed(context, n));
}

}  // namespace mantissa::onnx
