// Nodes that take some of the channels or positions.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {

bool has_positions(const ImportContext& context, const Imported& value) {
  const int last[] = {1, 0};
  const std::vector<int64_t> dims = value.layout.dims();
  const Shape& shape = context.builder.shape(value.value);
  return dims.size() == 2 && value.layout.lies_as(last) && shape.rank > 1 &&
         shape[shape.rank - 2] == dims[1] && shape.last() == dims[0];
}

Result<Imported> positions_at(ImportContext& context, const NodeData& node, Imported value,
                              int64_t axis, std::vector<int64_t> places) {
  if (!value.scale.empty() && value.form == Form::kImage) {
    return invalid_input("wants a layer between itself and the pixels");
  }
  const int64_t size = value.layout.dims()[axis], count = std::ssize(places);
  for (int64_t& place : places) {
    place += place < 0 ? size : 0;
    if (place < 0 || place >= size) return invalid_input("takes a position out of range");
  }
  MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kGatherRows, node_name(context, node),
                                        {value.value}, {{"rows", std::move(places)}}));
  if (value.layout.narrow(static_cast<size_t>(axis), count)) return value;
  return invalid_input("takes positions that do not lie together");
}

namespace {

// A value as an image or a vector, with the scale of pixels. The node's input is that from now on,
// so that its other readers add nothing to the graph again.
Result<Imported> plain_image(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  const size_t rank = input.layout.dims().size();
  if (rank == 1) {
    MANTISSA_ASSIGN(const Vector vector, vector_of(context, input));
    if (!vector.places.empty()) return invalid_input("takes a part of pixels that were flattened");
    define_image(context, node.inputs[0], vector.value);
  } else {
    std::vector<double> scale;
    MANTISSA_ASSIGN(const int image, image_of(context, input, &scale));
    define_image(context, node.inputs[0], image);
    context.values[node.inputs[0]].scale = std::move(scale);
  }
  return context.values[node.inputs[0]];
}

// Some channels of a value as the node's output of that name.
Status add_slice(ImportContext& context, const NodeData& node, const Imported& input, int64_t first,
                 int64_t channels, const std::string& output) {
  if (channels == input.layout.dims()[0]) {
    define(context, output, input);
    return {};
  }
  if (channels < 1) return invalid_input("takes no channel");
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kSlice, node_name(context, node), {input.value},
                           {{"first", first}, {"channels", channels}}));
  define_image(context, output, value);
  if (!input.scale.empty()) {
    const auto begin = input.scale.begin() + first;
    context.values[output].scale.assign(begin, begin + channels);
  }
  return {};
}

// One position of [N, C, T], with the channels alone or with a dimension of 1 behind them.
Status take_position(ImportContext& context, const NodeData& node, const Imported& value,
                     int64_t position, bool keeps_dim) {
  const std::vector<int64_t> dims = value.layout.dims();
  if (!value.scale.empty()) return invalid_input("wants a layer between itself and the pixels");
  if (position < 0 || position >= dims[1]) return invalid_input("takes a position out of range");
  MANTISSA_ASSIGN(int part,
                  add_node(context, ops::kSlice, node_name(context, node), {value.value},
                           {{"position", position}, {"channels", dims[0]}}));
  if (context.builder.shape(part).rank > 1) {
    MANTISSA_ASSIGN(part, add_node(context, ops::kFlatten, new_name(context, "flatten"), {part}));
  }
  Imported result{part, Layout::vector(dims[0]), {}};
  if (keeps_dim) result.layout.reshape(std::vector<int64_t>{dims[0], 1});
  define(context, node.outputs[0], std::move(result));
  return {};
}

// The sizes of a Split's parts, by input, attribute, or number of outputs.
Result<std::vector<int64_t>> parts_of(const ImportContext& context, const NodeData& node,
                                      int64_t channels) {
  MANTISSA_ASSIGN(auto sizes, list_of(context, node, 1, "split"));
  const int64_t count = std::ssize(node.outputs);
  if (!sizes) {
    const int64_t part = (channels + count - 1) / count;
    sizes.emplace(static_cast<size_t>(count), part);
    sizes->back() = channels - part * (count - 1);
  }
  int64_t sum = 0;
  for (const int64_t size : *sizes) sum += std::clamp<int64_t>(size, 0, channels - sum + 1);
  const bool fits = std::ssize(*sizes) == count && sum == channels &&
                    *std::min_element(sizes->begin(), sizes->end()) > 0;
  if (fits) return std::move(*sizes);
  return invalid_input("has parts that do not make up its " + std::to_string(channels) +
                       " channels");
}

// The range of a Slice along one axis of this many elements.
struct Range {
  int64_t first, end;
};
Range range_of(int64_t start, int64_t end, int64_t size) {
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  // The smallest and largest numbers of files must not overflow.
  return {place(std::max(start, -size)), place(std::max(end, -size))};
}

// Every `step`-th place from `start` on, up to `end` and without it, backwards if the step is below
// 0, as ONNX counts them.
std::vector<int64_t> sliced_places(int64_t start, int64_t end, int64_t step, int64_t size) {
  const bool is_back = step < 0;
  const auto place = [&](int64_t at) {
    at = std::max(at, -size - 1);
    return std::clamp<int64_t>(at < 0 ? at + size : at, is_back ? -1 : 0, size - is_back);
  };
  const int64_t last = place(end);
  step = std::clamp(step, -size, size);
  std::vector<int64_t> places;
  for (int64_t at = place(start); is_back ? at > last : at < last; at += step) {
    places.push_back(at);
  }
  return places;
}

// The first of places that follow each other in a dimension of this size; nothing: others.
std::optional<int64_t> first_place(const std::vector<int64_t>& places, int64_t size) {
  const auto place = [&](size_t i) { return places[i] + (places[i] < 0 ? size : 0); };
  for (size_t i = 0; i < places.size(); ++i) {
    const bool follows = place(i) - place(0) == static_cast<int64_t>(i);
    if (place(i) < 0 || place(i) >= size || !follows) return std::nullopt;
  }
  return places.empty() ? 0 : place(0);
}

std::vector<int64_t> range_from(int64_t first, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// The part [first, first + size) of dimension `axis`: channels that follow each other, or
// positions.
Result<Imported> part_of(ImportContext& context, const NodeData& node, Imported value, int64_t axis,
                         int64_t first, int64_t size) {
  const std::vector<int64_t> dims = value.layout.dims();
  if (size == dims[axis]) return value;
  if (size < 1) return invalid_input("takes nothing");
  const bool has_positions = is_of_positions(context, value, axis);
  if (has_positions && size > 1) {
    return positions_at(context, node, std::move(value), axis, range_from(first, size));
  }
  const Shape shape = context.builder.shape(value.value);
  const int64_t step = value.layout.step_of(static_cast<size_t>(axis));
  const int64_t channels = shape.last(), whole = dims[axis];
  const bool is_together = value.layout.narrow(static_cast<size_t>(axis), size);
  Attributes part = {{"first", first * step}, {"channels", size * step}};
  if (is_together && has_positions) {
    if (first != 0) MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
    part = {{"position", first}, {"channels", channels}};
  } else if (!is_together || step * whole != channels) {
    return invalid_input(
        "takes a part of something else than positions, or channels that lie together");
  }
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kSlice, node_name(context, node), {value.value}, part));
  return value;
}

// Some positions of [N, C, T].
Status slice_positions(ImportContext& context, const NodeData& node, const Imported& value) {
  MANTISSA_ASSIGN(const auto starts, list_of(context, node, 1, "starts"));
  MANTISSA_ASSIGN(const auto ends, list_of(context, node, 2, "ends"));
  MANTISSA_ASSIGN(const auto axes, list_of(context, node, 3, "axes"));
  MANTISSA_ASSIGN(const auto steps, list_of(context, node, 4, "steps"));
  const int64_t size = value.layout.dims()[1];
  const bool is_one = starts && ends && starts->size() == 1 && ends->size() == 1 && axes &&
                      (*axes == std::vector<int64_t>{2} || *axes == std::vector<int64_t>{-1}) &&
                      (!steps || steps->size() == 1);
  if (!is_one) return invalid_input("takes a part of something else than positions");
  const int64_t step = steps ? steps->front() : 1;
  if (step == 0) return invalid_input("has a step of 0");
  std::vector<int64_t> places = sliced_places(starts->front(), ends->front(), step, size);
  if (places.empty()) return invalid_input("takes no position");
  if (std::ssize(places) == size && step > 0) {
    define(context, node.outputs[0], value);
    return {};
  }
  if (places.size() == 1) return take_position(context, node, value, places[0], true);
  MANTISSA_ASSIGN(Imported part, positions_at(context, node, value, 1, std::move(places)));
  define(context, node.outputs[0], std::move(part));
  return {};
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

// The parts of the node's input at these places along an axis: positions, or things that follow
// each other.
Status define_places(ImportContext& context, const NodeData& node, int64_t given_axis,
                     const std::vector<int64_t>& places, bool is_matrix) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  const std::vector<int64_t> dims = value.layout.dims();
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(given_axis, std::ssize(dims)));
  if (places.empty()) return invalid_input("picks nothing");
  const auto first = first_place(places, dims[axis]);
  if ((!first || is_matrix) && is_of_positions(context, value, axis)) {
    MANTISSA_ASSIGN(Imported rows, positions_at(context, node, value, axis, places));
    if (is_matrix) {
      MANTISSA_ASSIGN(const std::vector<int64_t> to, output_dims(context, node));
      if (!rows.layout.reshape(to)) return invalid_input("has a result of unexpected dimensions");
    }
    define(context, node.outputs[0], std::move(rows));
    return {};
  }
  if (!first || is_matrix) {
    return invalid_input("picks things that do not follow each other");
  }
  return define_part(context, node, axis, *first, std::ssize(places));
}

}  // namespace

Status import_split(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  const int64_t axis = whole_of(node, "axis", 0);
  if (axis != 1 && axis != -std::ssize(value.layout.dims())) {
    return invalid_input("splits another axis than channels");
  }
  MANTISSA_ASSIGN(const Imported input, plain_image(context, node));
  const std::vector<int64_t> dims = input.layout.dims();
  MANTISSA_ASSIGN(const std::vector<int64_t> parts, parts_of(context, node, dims[0]));
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); first += parts[i++]) {
    if (!is_read(context, node.outputs[i])) continue;
    MANTISSA_RETURN_IF_ERROR(add_slice(context, node, input, first, parts[i], node.outputs[i]));
  }
  return {};
}

// Along channels; ranges of other axes must be all of them.
Status import_slice(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  if (has_positions(context, value)) return slice_positions(context, node, value);
  MANTISSA_ASSIGN(const Imported input, plain_image(context, node));
  MANTISSA_ASSIGN(const auto starts, list_of(context, node, 1, "starts"));
  MANTISSA_ASSIGN(const auto ends, list_of(context, node, 2, "ends"));
  MANTISSA_ASSIGN(auto axes, list_of(context, node, 3, "axes"));
  MANTISSA_ASSIGN(const auto steps, list_of(context, node, 4, "steps"));
  const std::vector<int64_t> dims = input.layout.dims();
  if (!starts || !ends || starts->size() != ends->size()) return invalid_input("has no range");
  if (!axes) {
    axes.emplace();
    for (int64_t i = 0; i < std::ssize(*starts); ++i) axes->push_back(i);
  }
  if (axes->size() != starts->size() || (steps && steps->size() != starts->size())) {
    return invalid_input("has other numbers of axes, starts, ends and steps");
  }
  Range channels{0, dims[0]};
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t rank = std::ssize(dims) + 1;
    const int64_t axis = (*axes)[i] + ((*axes)[i] < 0 ? rank : 0);
    if (axis < 0 || axis >= rank) return invalid_input("has an axis out of range");
    if (steps && (*steps)[i] != 1) return invalid_input("takes every so many of an axis");
    const int64_t size = axis == 0 ? INT64_MAX / 2 : dims[axis - 1];
    const Range range = range_of((*starts)[i], (*ends)[i], size);
    if (axis == 1) {
      channels = range;
    } else if (range.first != 0 || range.end != size) {
      return invalid_input("takes a part of another axis than channels");
    }
  }
  return add_slice(context, node, input, channels.first, channels.end - channels.first,
                   node.outputs[0]);
}

// One channel, or some that follow each other, by constant places.
Status import_gather(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<int64_t> places, wholes_of(*tensor));
  const int64_t axis = whole_of(node, "axis", 0);
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  if (has_positions(context, value) && (axis == 2 || axis == -1) && places.size() == 1) {
    const int64_t place = places[0] + (places[0] < 0 ? value.layout.dims()[1] : 0);
    return take_position(context, node, value, place, !tensor->dims.empty());
  }
  if (has_positions(context, value) && (axis == 2 || axis == -1) && tensor->dims.size() == 1) {
    if (places.empty()) return invalid_input("picks nothing");
    MANTISSA_ASSIGN(Imported part, positions_at(context, node, value, 1, places));
    define(context, node.outputs[0], std::move(part));
    return {};
  }
  MANTISSA_ASSIGN(const Imported input, plain_image(context, node));
  const std::vector<int64_t> dims = input.layout.dims();
  if ((axis != 1 && axis != -std::ssize(dims)) || tensor->dims.size() > 1) {
    return invalid_input("picks numbers along another axis than channels");
  }
  const auto first = first_place(places, dims[0]);
  if (!first) return invalid_input("picks channels that do not follow each other");
  MANTISSA_RETURN_IF_ERROR(
      add_slice(context, node, input, *first, std::ssize(places), node.outputs[0]));
  if (!tensor->dims.empty()) return {};
  // A single place takes the dimension of the channels away.
  Imported& result = context.values[node.outputs[0]];
  std::vector<int64_t> rest(dims.begin() + 1, dims.end());
  if (rest.empty()) return invalid_input("picks one number of a vector");
  if (result.layout.reshape(rest)) return {};
  return invalid_input("picks a channel of values that do not lie together");
}

// Rows of a table by tokens, or a part of a value by constant places: of channels, some that follow
// each other.
Status import_row_gather(ImportContext& context, const NodeData& node) {
  if (const TensorData* table = constant_of(context, node, 0)) {
    return add_embedding(context, node, *table);
  }
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<int64_t> places, wholes_of(*tensor));
  return define_places(context, node, whole_of(node, "axis", 0), places, tensor->dims.size() > 1);
}

namespace {

// Rows at places that an input of the model brings for each example, [N, rows, 1].
Status gather_by_input(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported places, input_of(context, node, 1));
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const std::vector<int64_t> dims = value.layout.dims(), at = places.layout.dims();
  const Value& index = context.builder.graph().values[places.value];
  const bool are_places = index.element == Element::kIndex && index.shape.rank == 1 &&
                          at == std::vector<int64_t>{dims[0], index.shape[0], 1};
  MANTISSA_ASSIGN(const std::vector<int64_t> to, output_dims(context, node));
  const bool are_rows = dims.size() == 3 && is_of_positions(context, value, 1) &&
                        context.builder.shape(value.value).rank == 2 &&
                        to == std::vector<int64_t>{dims[0], index.shape[0], dims[2]};
  if (!are_places || !are_rows || whole_of(node, "batch_dims", 0) != 1) {
    return invalid_input("picks something else by an input than whole rows of a sequence, at "
                         "places [N, rows] of each example");
  }
  MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kGatherRows, node_name(context, node),
                                        {value.value, places.value}));
  if (!value.layout.narrow(1, index.shape[0])) {
    return invalid_input("takes positions that do not lie together");
  }
  note_once(context, "places of rows count from 0 on: one that is none gives zeros, also a "
                     "negative one, which ONNX counts from the end");
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace

// The same along the first dimension, as PyTorch writes x[places] after a transposition; or rows at
// places of each example.
Status import_row_gather_nd(ImportContext& context, const NodeData& node) {
  if (constant_of(context, node, 1) == nullptr) return gather_by_input(context, node);
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<int64_t> places, wholes_of(*tensor));
  if (whole_of(node, "batch_dims", 0) != 0 || tensor->dims.size() < 2 || tensor->dims.back() != 1) {
    return invalid_input("picks by places in several dimensions, or others for each example");
  }
  return define_places(context, node, 0, places, tensor->dims.size() > 2);
}

Status import_row_slice(ImportContext& context, const NodeData& node) {
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
  const Range range = range_of(starts->front(), ends->front(), dims[axis]);
  return define_part(context, node, axis, range.first, range.end - range.first);
}

Status import_row_split(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  const std::vector<int64_t> dims = value.layout.dims();
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", 0), std::ssize(dims)));
  int64_t first = 0;
  for (const std::string& output : node.outputs) {
    const auto shape = context.shapes.find(output);
    if (shape == context.shapes.end()) return invalid_input("has parts of unknown sizes");
    const int64_t size = shape->second[axis];
    if (is_read(context, output)) {
      MANTISSA_ASSIGN(Imported part, part_of(context, node, value, axis, first, size));
      define(context, output, std::move(part));
    }
    first += size;
  }
  return {};
}

}  // namespace mantissa::onnx
