// Means and sums over axes. The network multiplies exact sums by 1/n in 31 bits; float64 computes
// the same products exactly.
#include <cmath>
#include <cstdlib>
#include <vector>

#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/volumes.h"
#include "onnx/export/wide.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pooling/reciprocal.h"

namespace mantissa::onnx {
namespace {

constexpr int kDoubleBits = 53;

// The axes of [N, C, H, W] or [N, C] that a node goes over, and how many numbers a result has.
struct Over {
  std::vector<int64_t> axes;
  int64_t count;
  bool keeps;  // the axes, with one element
};

Over over_of(const ExportContext& context, const Node& node) {
  const Shape& shape = context.shape(node.inputs[0]);
  const Shape image = whole_shape(shape);
  const bool is_global = node.op == &ops::kGlobalAveragePool;
  const ops::ReducedAxes over = is_global ? ops::ReducedAxes::kPositions
                                          : node.attributes.as<ops::ReduceAttributes>().over;
  if (over == ops::ReducedAxes::kChannels) return {{1}, shape.last(), true};
  if (over == ops::ReducedAxes::kPositions) return {{2, 3}, image[0] * image[1], false};
  if (over == ops::ReducedAxes::kHeight) return {{2}, image[0], true};
  return {{3}, image[1], true};
}

std::string sums_of(ExportContext& context, const Node& node, const Over& over,
                    const std::string& numbers) {
  ExportBuilder& to = context.builder;
  return to.add("ReduceSum", node.name + "/sums",
                {numbers, to.list(node.name + "/axes", over.axes)},
                {{"keepdims", int64_t{over.keeps ? 1 : 0}}});
}

Result<Exported> export_reduced(ExportContext& context, int n, bool is_mean) {
  const Node& node = context.graph.nodes[n];
  const Exported in = whole_input(context, node);
  const Over over = over_of(context, node);
  const ops::Reciprocal factor = is_mean ? ops::reciprocal(over.count) : ops::Reciprocal{1, 0};
  const double most = static_cast<double>(std::max(in.most, -in.least)) *
                      static_cast<double>(over.count) * static_cast<double>(factor.multiplier);
  if (most >= std::ldexp(1.0, kDoubleBits)) add_near(context, node, "has products beyond float64");
  const std::string numbers = as_double(context, real(context, in, node.name));
  const std::string sums = sums_of(context, node, over, numbers);
  return quantised(
      context, n,
      rounded_product(context, sums,
                      std::ldexp(static_cast<double>(factor.multiplier), factor.exponent),
                      context.exponent(node.outputs[0]), node.name + "/real"),
      in.is_signed() && is_signed(context, n));
}

// Of rows [batch, sequence, channels], in float32.
Result<Exported> export_row_reduced(ExportContext& context, int n, const char* type) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  const ops::ReducedAxes over = node.attributes.as<ops::ReduceAttributes>().over;
  const bool over_channels = over == ops::ReducedAxes::kChannels;
  if (!over_channels && over != ops::ReducedAxes::kPositions) {
    return invalid_input("goes over the height or width of a sequence");
  }
  if (!over_channels && in.form != Form::kRows) return invalid_input("goes over no positions");
  if (!over_channels && has_padding(context, in.side)) return invalid_input("counts padding");
  ExportBuilder& to = context.builder;
  Exported out = in;
  out.name = to.add(type, context.output_name(node),
                    {in.name, over_channels ? to.list("last_axis", {-1})
                                            : to.list("sequence_axis", {1})},
                    {{"keepdims", int64_t{over_channels ? 1 : 0}}});
  if (!over_channels) out.form = Form::kVector;
  return out;
}

}  // namespace

Result<Exported> export_reduced_mean(ExportContext& context, int n) {
  return export_reduced(context, n, true);
}

Result<Exported> export_reduced_sum(ExportContext& context, int n) {
  return export_reduced(context, n, false);
}

Result<Exported> export_row_reduced_mean(ExportContext& context, int n) {
  return export_row_reduced(context, n, "ReduceMean");
}

Result<Exported> export_row_reduced_sum(ExportContext& context, int n) {
  return export_row_reduced(context, n, "ReduceSum");
}

}  // namespace mantissa::onnx
