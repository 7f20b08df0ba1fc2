// Pictures that become sequences: the patches of a vision transformer, or the rows of a picture that
// a recurrent layer reads. The graph's value becomes [positions, channels] when a node reads it that
// works on rows.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Operators that exist for rows only, or that read pictures otherwise.
constexpr std::string_view kReadersOfRows[] = {
    "GRU", "LSTM", "LayerNormalization", "MatMul", "RMSNormalization", "RNN", "Softmax"};

// [N, T, C] or [N, C, T] of a picture's numbers, or [N, C], which lie as rows lie here.
bool may_be_rows(const Imported& value) {
  const int vector[] = {0}, first[] = {0, 1}, last[] = {1, 0};
  const size_t rank = value.layout.dims().size();
  if (value.form != Form::kImage) return false;
  if (rank == 1) return value.layout.lies_as(vector);
  return rank == 2 && (value.layout.lies_as(first) || value.layout.lies_as(last));
}

const Imported* value_of(const ImportContext& context, const std::string& name) {
  const auto found = context.values.find(name);
  return found == context.values.end() ? nullptr : &found->second;
}

// Whether the node works on rows: by its operator, by a value that has become rows, by a constant
// for each position, or since it takes the examples into the middle.
bool wants_rows(const ImportContext& context, const NodeData& node, bool has_sequence) {
  const auto is_rows = [&](const std::string& input) {
    const Imported* value = value_of(context, input);
    return context.scores.contains(input) || (value != nullptr && value->form == Form::kRows);
  };
  if (std::any_of(node.inputs.begin(), node.inputs.end(), is_rows)) return true;
  if (!has_sequence) return false;
  if (std::ranges::count(kReadersOfRows, node.op_type) > 0) return true;
  if (node.op_type == "Concat") return true;
  if (node.op_type == "Add" && (constant_of(context, node, 0) || constant_of(context, node, 1))) {
    return true;
  }
  const std::vector<int64_t> order = wholes_of(node, "perm");
  return node.op_type == "Transpose" && !order.empty() && order[0] != 0;
}

Status make_rows(ImportContext& context, const std::string& name) {
  const Imported picture = context.values[name];
  const std::vector<int64_t> dims = picture.layout.dims();
  if (picture.scale.size() > 1) return invalid_input("rearranges pixels before the first layer");
  const std::array<int, 2> order = {0, 1};
  const bool channels_last = dims.size() == 1 || picture.layout.lies_as(order);
  std::vector<int64_t> rows = dims;
  if (!channels_last) std::swap(rows[0], rows[1]);
  Imported value{picture.value, {}, picture.scale, Form::kRows};
  const Shape shape = rows.size() == 1 ? Shape{rows[0]} : Shape{rows[0], rows[1]};
  if (context.builder.shape(value.value) != shape) {
    Attributes attributes = rows.size() == 1
                                ? Attributes{{"channels", rows[0]}}
                                : Attributes{{"width", rows[0]}, {"channels", rows[1]}};
    MANTISSA_ASSIGN(value.value, add_node(context, ops::kReshape, new_name(context, "rows"),
                                          {value.value}, attributes));
  }
  rows.insert(rows.begin(), context.batch);
  value.layout = Layout::of(rows);
  if (!channels_last) value.layout.transpose(std::array{0, 2, 1});
  define(context, name, std::move(value));
  return {};
}

}  // namespace

Status turn_pictures_into_rows(ImportContext& context, const NodeData& node) {
  std::vector<std::string> pictures;
  bool has_sequence = false;
  for (const std::string& input : node.inputs) {
    const Imported* value = value_of(context, input);
    if (value == nullptr || !may_be_rows(*value)) continue;
    has_sequence = has_sequence || value->layout.dims().size() == 2;
    pictures.push_back(input);
  }
  if (pictures.empty() || !wants_rows(context, node, has_sequence)) return {};
  for (const std::string& picture : pictures) {
    if (context.values[picture].form == Form::kRows) continue;  // the node reads it twice
    MANTISSA_RETURN_IF_ERROR(make_rows(context, picture));
  }
  return {};
}

}  // namespace mantissa::onnx
