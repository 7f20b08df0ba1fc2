#include "onnx/export/by_rows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "onnx/export/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Positions, or an image of one row, which are [N, T, C]; other images are [N, H, W, C].
bool is_one_row(const Shape& shape) {
  return shape.rank == 2 || (shape.rank == 3 && shape[0] == 1);
}

// The value with its channels last, in float32.
Exported as_rows(ExportContext& context, const Exported& value, const Shape& shape) {
  ExportBuilder& to = context.builder;
  const std::string name = value.name + "/as_rows";
  Exported rows{.name = name, .form = shape.rank == 1 ? Form::kVector : Form::kRows};
  if (to.makes(name)) return rows;
  const std::string numbers = real(context, value, "as_rows/real");
  if (shape.rank == 1) {
    to.add("Identity", name, {numbers});
  } else if (!is_one_row(shape)) {
    to.add("Transpose", name, {numbers}, {ints("perm", {0, 2, 3, 1})});
  } else {
    const std::string row =
        to.add("Squeeze", name + "/one_row", {numbers, to.list("row_axis", {2})});
    to.add("Transpose", name, {row}, {ints("perm", {0, 2, 1})});
  }
  return rows;
}

// Back, with the channels first.
std::string as_image(ExportContext& context, const std::string& rows, const Shape& shape) {
  ExportBuilder& to = context.builder;
  if (shape.rank == 1) return rows;
  const std::string name = rows + "/channels_first";
  if (!is_one_row(shape)) return to.add("Transpose", name, {rows}, {ints("perm", {0, 3, 1, 2})});
  const std::string row =
      to.add("Transpose", name + "/row", {rows}, {ints("perm", {0, 2, 1})});
  return to.add("Unsqueeze", name, {row, to.list("row_axis", {2})});
}

// The values that the node's operator reads. ONNX's recurrent operators contain the linear layer
// before, and read what it reads.
std::vector<int> values_read(const ExportContext& context, const Node& node) {
  std::vector<int> values = node.inputs;
  const bool is_recurrent =
      node.op == &ops::kRnn || node.op == &ops::kLstm || node.op == &ops::kGru;
  const int producer = context.graph.values[node.inputs[0]].producer;
  if (is_recurrent && producer >= 0) {
    const std::vector<int>& more = context.graph.nodes[producer].inputs;
    values.insert(values.end(), more.begin(), more.end());
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// The shape of a value as the file has it: that of gates is the shape of what their layer reads.
const Shape& shape_of(const ExportContext& context, int value) {
  const int producer = context.graph.values[value].producer;
  const bool is_passed_on = producer >= 0 && feeds_gates_alone(context, value);
  return context.shape(is_passed_on ? context.graph.nodes[producer].inputs[0] : value);
}

}  // namespace

Result<Exported> export_by_rows(ExportContext& context, int n, ExportFunction function) {
  const Node& node = context.graph.nodes[n];
  const Shape& shape = context.shape(node.inputs[0]);
  const bool of_each_row = node.op == &ops::kLayerNorm || node.op == &ops::kRmsNorm;
  if (!of_each_row && !is_one_row(shape)) {
    return invalid_input("takes the rows of an image as sequences of their own");
  }
  const std::vector<int> values = values_read(context, node);
  std::vector<Exported> kept;
  for (const int value : values) {
    std::optional<Exported>& one = context.values[static_cast<size_t>(value)];
    kept.push_back(*one);
    if (one->is_mantissas()) one = as_rows(context, *one, shape_of(context, value));
  }
  context.in_rows = true;
  Result<Exported> result = function(context, n);
  context.in_rows = false;
  for (size_t i = 0; i < values.size(); ++i) {
    context.values[static_cast<size_t>(values[i])] = std::move(kept[i]);
  }
  if (!result.ok()) return result;
  return quantised(context, n, as_image(context, result->name, context.shape(node.outputs[0])));
}

}  // namespace mantissa::onnx
