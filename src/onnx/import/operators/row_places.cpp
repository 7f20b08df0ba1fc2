// Rows at constant places, where the model has an index for each element: GatherElements and
// ScatterElements; or for each row or number: ScatterND. The indices must be the same for all
// numbers of a row, and for all examples.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// A place for each element along an axis of the model.
struct RowsAt {
  int64_t axis = 0;
  std::vector<int64_t> places;
};

// The coordinate of element i along an axis.
int64_t coordinate(const std::vector<int64_t>& dims, int64_t axis, int64_t i) {
  for (auto behind = std::ssize(dims) - 1; behind > axis; --behind) i /= dims[behind];
  return i % dims[axis];
}

// The numbers as places along the axis; nothing: they differ along another one.
std::optional<std::vector<int64_t>> places_along(const std::vector<int64_t>& dims, int64_t axis,
                                                 const std::vector<int64_t>& numbers) {
  std::vector<std::optional<int64_t>> found(static_cast<size_t>(dims[axis]));
  for (int64_t i = 0; i < std::ssize(numbers); ++i) {
    auto& place = found[coordinate(dims, axis, i)];
    if (place && *place != numbers[i]) return std::nullopt;
    place = numbers[i];
  }
  std::vector<int64_t> places;
  for (const auto& place : found) places.push_back(place.value_or(0));
  return places;
}

// The indices of elements along the node's axis.
Result<RowsAt> places_of_elements(const ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<int64_t> numbers, wholes_of(*tensor));
  MANTISSA_ASSIGN(const int64_t axis,
                  checked_axis(whole_of(node, "axis", 0), std::ssize(tensor->dims)));
  auto places = places_along(tensor->dims, axis, numbers);
  if (places) return RowsAt{axis, std::move(*places)};
  return invalid_input("has other places for each number or example; whole rows have one");
}

// The axis along which the indices of ScatterND, [..., coordinates], say something else than where
// an update already is; all others must say that.
Result<RowsAt> places_of_nd(const TensorData& tensor, const std::vector<int64_t>& data) {
  MANTISSA_ASSIGN(const std::vector<int64_t> numbers, wholes_of(tensor));
  const std::vector<int64_t> rows(tensor.dims.begin(), tensor.dims.end() - 1);
  const int64_t coordinates = tensor.dims.back();
  const Error other = invalid_input("puts something else than whole rows at places");
  if (std::ssize(rows) != coordinates || coordinates > std::ssize(data)) return other;
  std::optional<RowsAt> found;
  for (int64_t axis = 0; axis < coordinates; ++axis) {
    std::vector<int64_t> of_axis;
    bool moves = rows[axis] != data[axis];
    for (size_t i = axis; i < numbers.size(); i += coordinates) {
      of_axis.push_back(numbers[i]);
      moves = moves || numbers[i] != coordinate(rows, axis, static_cast<int64_t>(i) / coordinates);
    }
    if (!moves) continue;
    auto places = places_along(rows, axis, of_axis);
    if (found || !places) return other;
    found = RowsAt{axis, std::move(*places)};
  }
  if (!found) return other;
  return std::move(*found);
}

// The dimension of the value's layout that is that axis of the model, if it is its positions.
Result<int64_t> positions_axis(const ImportContext& context, const Imported& value, int64_t axis) {
  if (value.form == Form::kRows && is_of_positions(context, value, axis)) return axis;
  if (value.form == Form::kImage && axis == 2 && has_positions(context, value)) return axis - 1;
  return invalid_input("moves something else than the positions of a sequence");
}

// Whether the dimensions agree in all but one.
bool agree(const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t axis) {
  if (a.size() != b.size()) return false;
  for (int64_t i = 0; i < std::ssize(a); ++i) {
    if (i != axis && a[i] != b[i]) return false;
  }
  return true;
}

std::vector<int64_t> dims_with_examples(const ImportContext& context, const Imported& value) {
  std::vector<int64_t> dims = value.layout.dims();
  if (value.form == Form::kImage) dims.insert(dims.begin(), context.batch);
  return dims;
}

// The dimensions of the zeros that rows are put into.
Result<std::vector<int64_t>> zeros_of(const ImportContext& context, const NodeData& node) {
  const TensorData* tensor = constant_of(context, node, 0);
  const Error other = invalid_input("puts rows into a value; into zeros they can be");
  if (tensor == nullptr) return other;
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(*tensor));
  if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return x != 0; })) return other;
  return tensor->dims;
}

// The updates, input 2, at places of zeros.
Status define_put(ImportContext& context, const NodeData& node, RowsAt at,
                  const std::vector<int64_t>& zeros) {
  const std::string reduction = text_of(node, "reduction", "none");
  if (reduction != "none" && reduction != "add") {
    return invalid_input("puts rows by '" + readable(reduction) + "'");
  }
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 2));
  if (!value.scale.empty() && value.form == Form::kImage) {
    return invalid_input("wants a layer between itself and the pixels");
  }
  if (!agree(dims_with_examples(context, value), zeros, at.axis)) {
    return invalid_input("puts parts of rows, or rows of some examples");
  }
  MANTISSA_ASSIGN(const int64_t axis, positions_axis(context, value, at.axis));
  MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  const int64_t positions = zeros[at.axis];
  for (int64_t& place : at.places) {
    place += place < 0 ? positions : 0;
    if (place < 0 || place >= positions) return invalid_input("has a place out of range");
  }
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kScatterRows, node_name(context, node), {value.value},
                           {{"rows", std::move(at.places)}, {"positions", positions}}));
  if (!value.layout.narrow(static_cast<size_t>(axis), positions)) {
    return invalid_input("puts positions that do not lie together");
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace

Status import_gather_elements(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(RowsAt at, places_of_elements(context, node));
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  if (!agree(dims_with_examples(context, value), constant_of(context, node, 1)->dims, at.axis)) {
    return invalid_input("picks parts of rows, or rows of some examples");
  }
  MANTISSA_ASSIGN(const int64_t axis, positions_axis(context, value, at.axis));
  MANTISSA_ASSIGN(value, positions_at(context, node, std::move(value), axis, std::move(at.places)));
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status import_scatter_elements(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const std::vector<int64_t> zeros, zeros_of(context, node));
  MANTISSA_ASSIGN(RowsAt at, places_of_elements(context, node));
  if (!agree(constant_of(context, node, 1)->dims, zeros, at.axis)) {
    return invalid_input("puts parts of rows, or rows of some examples");
  }
  return define_put(context, node, std::move(at), zeros);
}

Status import_scatter_nd(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const std::vector<int64_t> zeros, zeros_of(context, node));
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  if (tensor->dims.empty()) return invalid_input("has no places");
  MANTISSA_ASSIGN(RowsAt at, places_of_nd(*tensor, zeros));
  return define_put(context, node, std::move(at), zeros);
}

}  // namespace mantissa::onnx
