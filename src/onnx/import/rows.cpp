#include "onnx/import/rows.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/ops.h"

namespace mantissa::onnx {

Result<Imported> without_factor(ImportContext& context, Imported rows) {
  if (rows.scale.empty()) return rows;
  if (rows.form != Form::kRows) {
    return invalid_input("its input has a factor; only layers with weights and attention take one");
  }
  const auto channels = static_cast<size_t>(context.builder.shape(rows.value).last());
  MANTISSA_ASSIGN(rows.value,
                  add_node(context, ops::kRescale, new_name(context, "factor"), {rows.value},
                           {{"least_bits", kWideBits}},
                           {std::vector(channels, rows.scale[0]), std::vector(channels, 0.0)}));
  leave_untrained(context);
  rows.scale.clear();
  return rows;
}

// Other readers of the value find it without its factor, too, and add nothing again.
Result<Imported> plain_input(ImportContext& context, const NodeData& node, size_t index) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, index));
  if (value.scale.empty()) return value;
  MANTISSA_ASSIGN(Imported plain, without_factor(context, value));
  define(context, node.inputs[index], plain);
  return plain;
}

Result<int64_t> channels_of(const ImportContext& context, const Imported& value) {
  const int64_t channels = context.builder.shape(value.value).last();
  Layout layout = value.layout;
  if (layout.resize_last(channels, channels)) return channels;
  return invalid_input("its input has not its " + std::to_string(channels) +
                       " channels as the last dimension");
}

bool is_of_positions(const ImportContext& context, const Imported& value, int64_t axis) {
  const Shape shape = context.builder.shape(value.value);
  const std::vector<int64_t> dims = value.layout.dims();
  return shape.rank == 2 && axis < std::ssize(dims) && dims[axis] == shape[0] && shape[0] > 1 &&
         value.layout.step_of(static_cast<size_t>(axis)) == shape[1];
}

Result<std::vector<int64_t>> output_dims(const ImportContext& context, const NodeData& node) {
  const auto found = context.shapes.find(node.outputs[0]);
  if (found != context.shapes.end()) return found->second;
  return invalid_input("the shape of its result is not known");
}

std::vector<const NodeData*> readers_behind(const ImportContext& context,
                                            const std::string& value) {
  constexpr std::string_view kMoves[] = {"Dropout", "Identity",  "Reshape",
                                         "Squeeze", "Transpose", "Unsqueeze"};
  std::vector<std::string> names = {value};
  std::vector<const NodeData*> all;
  for (size_t i = 0; i < names.size(); ++i) {
    if (context.results.contains(names[i])) all.push_back(nullptr);
    const auto readers = context.readers.find(names[i]);
    if (readers == context.readers.end()) continue;
    for (const NodeData* reader : readers->second) {
      const bool moves =
          std::find(std::begin(kMoves), std::end(kMoves), reader->op_type) != std::end(kMoves);
      if (moves) names.push_back(reader->outputs[0]);
      if (!moves) all.push_back(reader);
    }
  }
  return all;
}

int64_t least_bits(const ImportContext& context, const std::string& value) {
  const std::vector<const NodeData*> readers = readers_behind(context, value);
  const bool is_wide = std::any_of(readers.begin(), readers.end(), [](const NodeData* reader) {
    return reader != nullptr && (reader->op_type == "Add" || reader->op_type == "Gelu");
  });
  return is_wide ? kWideBits : 0;
}

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

Result<int> last_position(ImportContext& context, const std::string& name, int value) {
  const Shape shape = context.builder.shape(value);
  return add_node(context, ops::kSlice, name, {value},
                  {{"position", shape[0] - 1}, {"channels", shape.last()}});
}

Result<int64_t> checked_axis(int64_t axis, int64_t rank) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front >= 0 && from_front < rank) return from_front;
  return invalid_input("has an axis out of range");
}

}  // namespace mantissa::onnx
