// Sums and products of mantissas.
#include <algorithm>
#include <cstdlib>

#include "onnx/export/operators.h"
#include "onnx/export/wide.h"

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

bool any_is_wide(const ExportContext& context, const Node& node) {
  return context.input(node, 0).form == Form::kWide || context.input(node, 1).form == Form::kWide;
}

// `type` of both inputs, which float32 would round: in float64, then rounded to the mantissas of
// the result.
std::string in_double(ExportContext& context, const Node& node, const char* type,
                      const std::vector<std::string>& inputs) {
  std::vector<std::string> doubles;
  for (const std::string& input : inputs) doubles.push_back(as_double(context, input));
  const std::string exact =
      context.builder.add(type, node.name + "/double", std::move(doubles));
  return rounded_product(context, exact, 1, context.exponent(node.outputs[0]),
                         node.name + "/real");
}

// `type` is Add or Sub.
Result<Exported> export_sum(ExportContext& context, int n, const char* type, const char* verb) {
  constexpr int kMostDistance = 16;  // from there on one of the two is rounded first
  constexpr int kMostWideDistance = 36;
  constexpr int kMostFloatDistance = 8;  // float32 has sums of 16-bit mantissas
  const Node& node = context.graph.nodes[n];
  const int distance =
      std::abs(context.input(node, 0).exponent - context.input(node, 1).exponent);
  const bool is_wide = any_is_wide(context, node);
  const int most = is_wide ? kMostWideDistance : kMostDistance;
  if (distance > most) {
    return invalid_input(std::string(verb) + " values whose units differ by more than 2^" +
                         std::to_string(most));
  }
  std::vector<std::string> inputs = both(context, node);
  if (is_wide && distance > kMostFloatDistance) {
    return quantised(context, n, in_double(context, node, type, inputs));
  }
  return quantised(context, n, context.builder.add(type, node.name + "/real", std::move(inputs)));
}

}  // namespace

Result<Exported> export_add(ExportContext& context, int n) {
  return export_sum(context, n, "Add", "adds");
}

Result<Exported> export_subtract(ExportContext& context, int n) {
  return export_sum(context, n, "Sub", "subtracts");
}

// Products of mantissas of 8 bits are exact in float32. A gate, one factor for each channel of an
// image, is [N, C, 1, 1].
Result<Exported> export_multiply(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape image = context.shape(node.inputs[0]), gate = context.shape(node.inputs[1]);
  std::vector<std::string> inputs = both(context, node);
  if (gate.rank < image.rank) {
    ExportBuilder& to = context.builder;
    inputs[1] = to.add("Reshape", node.name + "/gate",
                       {inputs[1], to.list(node.name + "/gate/shape", {0, gate[0], 1, 1})});
  }
  const bool any_signed = context.input(node, 0).is_signed() || context.input(node, 1).is_signed();
  const bool sign = any_signed && is_signed(context, n);
  if (any_is_wide(context, node)) {
    return quantised(context, n, in_double(context, node, "Mul", inputs), sign);
  }
  return quantised(context, n, context.builder.add("Mul", node.name + "/real", std::move(inputs)),
                   sign);
}

}  // namespace mantissa::onnx
