// Sequences: nodes that name the same numbers otherwise or take a part of them, and embeddings.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/sequences/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// The part [first, first + size) of dimension `axis`: channels that follow each other, or one
// position.
Result<Imported> part_of(ImportContext& context, const NodeData& node, Imported value, int64_t axis,
                         int64_t first, int64_t size) {
  const std::vector<int64_t> dims = value.layout.dims();
  if (size == dims[axis]) return value;
  if (size < 1) return invalid_input("takes nothing");
  const Shape shape = context.builder.shape(value.value);
  const int64_t step = value.layout.step_of(static_cast<size_t>(axis));
  const int64_t channels = shape.last(), whole = dims[axis];
  const bool is_together = value.layout.narrow(static_cast<size_t>(axis), size);
  Attributes part = {{"first", first * step}, {"channels", size * step}};
  if (is_together && shape.rank == 2 && step == channels && whole == shape[0] && size == 1) {
    if (first != 0) MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
    part = {{"position", first}, {"channels", channels}};
  } else if (!is_together || step * whole != channels) {
    return invalid_input(
        "takes a part of something else than channels that lie together, or more "
        "than one position");
  }
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kSlice, node_name(context, node), {value.value}, part));
  return value;
}

Status define_part(ImportContext& context, const NodeData& node, int64_t axis, int64_t first,
                   int64_t size) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(value, part_of(context, node, std::move(value), axis, first, size));
  MANTISSA_ASSIGN(const std::vector<int64_t> dims, output_dims(context, node));
  if (!value.layout.reshape(dims)) return invalid_input("has a result of unexpected dimensions");
  define(context, node.outputs[0], std::move(value));
  return {};
}

// Rows of a constant by tokens.
Status add_embedding(ImportContext& context, const NodeData& node, const TensorData& table) {
  MANTISSA_ASSIGN(Imported tokens, input_of(context, node, 1));
  const Graph& graph = context.builder.graph();
  if (graph.values[tokens.value].element != Element::kIndex || table.dims.size() != 2 ||
      whole_of(node, "axis", 0) != 0) {
    return invalid_input("picks something else than rows of a matrix by tokens");
  }
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(table));
  const auto readers = context.readers.find(node.outputs[0]);
  std::string result = node.outputs[0];
  // If its result is multiplied by a factor, as in Vaswani et al., the table takes the factor.
  if (readers != context.readers.end() && readers->second.size() == 1) {
    if (const auto factor = factor_of(context, *readers->second[0])) {
      for (double& number : numbers) number *= factor->number;
      context.done.insert(readers->second[0]);
      result = readers->second[0]->outputs[0];
    }
  }
  MANTISSA_ASSIGN(
      tokens.value,
      add_node(context, ops::kEmbedding, layer_name(context, node, table), {tokens.value},
               {{"rows", table.dims[0]}, {"channels", table.dims[1]}}, {std::move(numbers)}));
  tokens.layout.append(table.dims[1]);
  define(context, result, std::move(tokens));
  return {};
}

Result<int64_t> checked_axis(int64_t axis, int64_t rank) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front >= 0 && from_front < rank) return from_front;
  return invalid_input("has an axis out of range");
}

}  // namespace

Result<int> last_position(ImportContext& context, const std::string& name, int value) {
  const Shape shape = context.builder.shape(value);
  return add_node(context, ops::kSlice, name, {value},
                  {{"position", shape[0] - 1}, {"channels", shape.last()}});
}

Status import_rows_reshape(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const std::vector<int64_t> dims, output_dims(context, node));
  if (!value.layout.reshape(dims)) {
    return invalid_input("cuts dimensions where they do not lie together");
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status import_rows_transpose(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const auto rank = static_cast<int>(value.layout.dims().size());
  std::vector<int64_t> given = wholes_of(node, "perm"), sorted(static_cast<size_t>(rank));
  std::iota(sorted.begin(), sorted.end(), 0);
  if (!has_attribute(node, "perm")) given.assign(sorted.rbegin(), sorted.rend());
  if (!std::is_permutation(given.begin(), given.end(), sorted.begin(), sorted.end())) {
    return invalid_input("has no permutation of its dimensions");
  }
  value.layout.transpose(std::vector<int>(given.begin(), given.end()));
  define(context, node.outputs[0], std::move(value));
  return {};
}

// Along a dimension whose parts make up the channels: of channels, or of the last states of layers.
Status import_rows_concat(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const std::vector<int64_t> dims, output_dims(context, node));
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", 0), std::ssize(dims)));
  std::vector<int> values;
  std::optional<Layout> layout;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    MANTISSA_ASSIGN(Imported part, plain_input(context, node, i));
    const int64_t channels = context.builder.shape(part.value).last();
    const bool fits = part.layout.dims().size() == dims.size() &&
                      part.layout.widen(static_cast<size_t>(axis), dims[axis], channels);
    if (!fits || (layout && !(*layout == part.layout))) {
      return invalid_input("joins along something else than channels or states");
    }
    layout = part.layout;
    values.push_back(part.value);
  }
  if (!layout) return invalid_input("joins nothing");
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kConcat, node_name(context, node), std::move(values)));
  define(context, node.outputs[0], {value, std::move(*layout), {}});
  return {};
}

// Rows of a table by tokens, or a part of a value by constant places that follow each other.
Status import_rows_gather(ImportContext& context, const NodeData& node) {
  if (const TensorData* table = constant_of(context, node, 0)) {
    return add_embedding(context, node, *table);
  }
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<int64_t> places, wholes_of(*tensor));
  const std::vector<int64_t> dims = value.layout.dims();
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", 0), std::ssize(dims)));
  const auto place = [&](size_t i) { return places[i] + (places[i] < 0 ? dims[axis] : 0); };
  for (size_t i = 0; i < places.size(); ++i) {
    if (place(i) < 0 || place(i) >= dims[axis] || place(i) - place(0) != static_cast<int64_t>(i) ||
        tensor->dims.size() > 1) {
      return invalid_input("picks things that do not follow each other");
    }
  }
  if (places.empty()) return invalid_input("picks nothing");
  return define_part(context, node, axis, place(0), std::ssize(places));
}

Status import_rows_slice(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const auto starts, list_of(context, node, 1, "starts"));
  MANTISSA_ASSIGN(const auto ends, list_of(context, node, 2, "ends"));
  MANTISSA_ASSIGN(const auto axes, list_of(context, node, 3, "axes"));
  MANTISSA_ASSIGN(const auto steps, list_of(context, node, 4, "steps"));
  if (!starts || !ends || starts->size() != 1 || ends->size() != 1 || (axes && axes->size() != 1) ||
      (steps && (steps->size() != 1 || steps->front() != 1))) {
    return invalid_input("takes parts of several dimensions, or every so many");
  }
  const std::vector<int64_t> dims = value.layout.dims();
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(axes ? axes->front() : 0, std::ssize(dims)));
  const auto place = [&](int64_t at) {
    const int64_t size = dims[axis];
    return std::clamp<int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
  };
  const int64_t first = place(starts->front());
  return define_part(context, node, axis, first, place(ends->front()) - first);
}

Status import_rows_split(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  const std::vector<int64_t> dims = value.layout.dims();
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", 0), std::ssize(dims)));
  int64_t first = 0;
  for (const std::string& output : node.outputs) {
    const auto shape = context.shapes.find(output);
    if (shape == context.shapes.end()) return invalid_input("has parts of unknown sizes");
    const int64_t size = shape->second[axis];
    if (context.readers.contains(output) || context.results.contains(output)) {
      MANTISSA_ASSIGN(Imported part, part_of(context, node, value, axis, first, size));
      define(context, output, std::move(part));
    }
    first += size;
  }
  return {};
}

Status import_rows_cast(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const ElementType type = cast_type(node);
  if (context.builder.graph().values[value.value].element != Element::kIndex) {
    return import_cast(context, node);
  }
  if (type != ElementType::kInt64 && type != ElementType::kInt32) {
    return invalid_input(std::string("casts tokens to ") + element_name(type));
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace mantissa::onnx
