// Softmax. Of mantissas in integers of 64 bits: the network's powers are a table of the distances
// from the largest, and its quotients are whole numbers, so every bit is the network's. Of rows in
// float32.
#include <cmath>
#include <vector>

#include "numerics/exponential.h"
#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/rows.h"
#include "onnx/export/wide.h"
#include "ops/attributes.h"

namespace mantissa::onnx {
namespace {

constexpr int kProbabilityExponent = -30;  // of the quotients, before they are rounded

ops::ReducedAxes axes_of(const Node& node) {
  return node.attributes.as<ops::ReduceAttributes>().over;
}

// The axis of [N, C, H, W] or [N, C]. Height and width of positions become one axis, the last.
int64_t axis_of(const Node& node) {
  const ops::ReducedAxes over = axes_of(node);
  if (over == ops::ReducedAxes::kChannels) return 1;
  return over == ops::ReducedAxes::kWidth ? 3 : 2;
}

// 2^(-distance) in Q30, of all distances between two mantissas.
std::string table_of_powers(ExportContext& context, const Node& node) {
  const Exported& in = context.input(node);
  std::vector<int64_t> powers;
  for (int64_t distance = 0; distance < table_range(in).size(); ++distance) {
    powers.push_back(exp2_q30(natural_to_log2_q16(-distance, in.exponent)));
  }
  return context.builder.list(node.name + "/table", powers);
}

// Powers over their sum in Q30, to nearest: int64.
std::string quotients(ExportContext& context, const Node& node, const std::string& powers) {
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  const auto whole = [&](const char* what, int64_t number) {
    return to.numbers<int64_t>(what, ElementType::kInt64, {}, {number});
  };
  const std::string sum =
      to.add("ReduceSum", name + "/sum", {powers, to.list(name + "/axes", {axis_of(node)})},
             {{"keepdims", int64_t{1}}});
  const std::string half = to.add("Div", name + "/half", {sum, whole("softmax/two", 2)});
  const std::string units =
      to.add("Mul", name + "/units",
             {powers, whole("softmax/one", int64_t{1} << -kProbabilityExponent)});
  const std::string above = to.add("Add", name + "/above", {units, half});
  return to.add("Div", name + "/quotients", {above, sum});
}

}  // namespace

Result<Exported> export_softmax(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  const bool of_positions = axes_of(node) == ops::ReducedAxes::kPositions;
  std::string places = table_index(context, node);
  if (of_positions) {
    places = to.add("Reshape", name + "/positions",
                    {places, to.list(name + "/positions/shape", {0, 0, -1})});
  }
  const std::string largest =
      to.add("TopK", name + "/largest", {places, to.list("one_element", {1})},
             {{"axis", axis_of(node)}}, {name + "/largest/place"});
  const std::string distances = to.add("Sub", name + "/distances", {largest, places});
  const std::string powers =
      to.add("Gather", name + "/powers", {table_of_powers(context, node), distances});
  std::string shares = quotients(context, node, powers);
  if (of_positions) {
    const Shape image = context.image_shape(node.inputs[0]);
    shares = to.add("Reshape", name + "/image",
                    {shares, to.list(name + "/image/shape", {0, 0, image[0], image[1]})});
  }
  const std::string numbers = as_double(context, shares);
  return quantised(context, n,
                   rounded_product(context, numbers, std::ldexp(1.0, kProbabilityExponent),
                                   context.exponent(node.outputs[0]), name + "/real"),
                   false);
}

// Here padding counts, too; in the model there is as much of it as its user likes.
Result<Exported> export_row_softmax(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  const ops::ReducedAxes over = axes_of(node);
  const bool over_channels = over == ops::ReducedAxes::kChannels;
  if (!over_channels && over != ops::ReducedAxes::kPositions) {
    return invalid_input("goes over the height or width of a sequence");
  }
  if (!over_channels && in.form != Form::kRows) return invalid_input("goes over no positions");
  if (!over_channels && has_padding(context, in.side)) return invalid_input("counts padding");
  return with_form(context, node,
                   context.builder.add("Softmax", context.output_name(node), {in.name},
                                       {{"axis", int64_t{over_channels ? -1 : 1}}}));
}

}  // namespace mantissa::onnx
