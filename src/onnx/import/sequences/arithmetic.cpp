// Sums and products of sequences.
#include <algorithm>
#include <utility>

#include "onnx/import/sequences/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 28;

// The constant for each number of a value as the graph has it, without the examples; an error where
// it does not broadcast to the value, or differs between examples.
Result<std::vector<double>> table_of(const ImportContext& context, const TensorData& tensor,
                                     const Imported& value) {
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(tensor));
  const std::vector<int64_t> dims = value.layout.dims(), places = value.layout.places();
  const auto front = static_cast<int64_t>(dims.size() - tensor.dims.size());
  if (front < 0) return invalid_input("its constant has more dimensions than its input");
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] != 1 && tensor.dims[i] != dims[front + static_cast<int64_t>(i)]) {
      return invalid_input("its constant does not have the shape of its input");
    }
  }
  const int64_t size = context.builder.shape(value.value).count(), count = value.layout.count();
  if (count > kMostNumbers) {
    return invalid_input(
        "adds a constant to more than 2^28 numbers; a model that is exported with "
        "fewer examples has fewer");
  }
  std::vector<double> table(static_cast<size_t>(size), 0.0);
  for (int64_t element = 0; element < count; ++element) {
    int64_t at = 0, step = 1, rest = element;
    for (auto i = std::ssize(dims) - 1; i >= 0; --i) {
      const int64_t place = rest % dims[i];
      rest /= dims[i];
      if (i < front) continue;
      if (tensor.dims[i - front] != 1) at += place * step;
      step *= tensor.dims[i - front];
    }
    const int64_t stored = places.empty() ? element : places[element];
    if (stored >= size && table[stored % size] != numbers[at]) {
      return invalid_input("its constant differs between examples");
    }
    table[stored % size] = numbers[at];
  }
  return table;
}

// A value and a constant for each position and channel: a table of positions.
Status add_table(ImportContext& context, const NodeData& node, size_t value_input,
                 const TensorData& tensor) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, value_input));
  const Shape shape = context.builder.shape(value.value);
  if (shape.rank != 2) return invalid_input("adds a constant to something without positions");
  MANTISSA_ASSIGN(std::vector<double> table, table_of(context, tensor, value));
  const std::string name = layer_name(context, node, tensor);
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kPositionEmbedding, name, {value.value},
                                        {{"positions", shape[0]}, {"least_bits", kWideBits}},
                                        {std::move(table)}));
  context.notes.push_back("the constant that " + name +
                          " adds to each position is a table, which is trained");
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status add_elements(ImportContext& context, const NodeData& node, const Op& op,
                    const Attributes& attributes) {
  MANTISSA_ASSIGN(Imported a, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const Imported b, plain_input(context, node, 1));
  if (!(a.layout == b.layout) || context.builder.shape(a.value) != context.builder.shape(b.value)) {
    return invalid_input("has two inputs of different shapes");
  }
  MANTISSA_ASSIGN(a.value,
                  add_node(context, op, node_name(context, node), {a.value, b.value}, attributes));
  define(context, node.outputs[0], std::move(a));
  return {};
}

Status scale(ImportContext& context, const NodeData& node, const Factor& factor) {
  if (scores_of(context, node, factor.value_input) != nullptr) {
    return scale_scores(context, node, factor);
  }
  MANTISSA_ASSIGN(Imported value, input_of(context, node, factor.value_input));
  value.scale = {(value.scale.empty() ? 1 : value.scale[0]) * factor.number};
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace

std::optional<Factor> factor_of(const ImportContext& context, const NodeData& node) {
  const bool divides = node.op_type == "Div";
  if ((!divides && node.op_type != "Mul") || node.inputs.size() != 2) return std::nullopt;
  for (const size_t i : {0, 1}) {
    const TensorData* tensor = constant_of(context, node, i);
    if (tensor == nullptr || (divides && i == 0)) continue;
    const auto numbers = numbers_of(*tensor);
    if (!numbers.ok() || numbers->size() != 1 || (*numbers)[0] == 0) continue;
    return Factor{divides ? 1 / (*numbers)[0] : (*numbers)[0], 1 - i};
  }
  return std::nullopt;
}

Status import_rows_add(ImportContext& context, const NodeData& node) {
  for (const size_t i : {0, 1}) {
    if (scores_of(context, node, i) != nullptr) return mask_scores(context, node, i);
  }
  for (const size_t i : {0, 1}) {
    const TensorData* tensor = constant_of(context, node, i);
    if (tensor != nullptr) return add_table(context, node, 1 - i, *tensor);
  }
  return add_elements(context, node, ops::kAdd, {{"least_bits", kWideBits}});
}

Status import_rows_multiply(ImportContext& context, const NodeData& node) {
  if (const auto factor = factor_of(context, node)) return scale(context, node, *factor);
  for (const size_t i : {0, 1}) {
    if (constant_of(context, node, i) != nullptr) {
      return invalid_input("multiplies by a constant that is not one number");
    }
  }
  return add_elements(context, node, ops::kMultiply, {});
}

Status import_rows_divide(ImportContext& context, const NodeData& node) {
  if (const auto factor = factor_of(context, node)) return scale(context, node, *factor);
  return invalid_input("divides by something else than one constant number");
}

}  // namespace mantissa::onnx
