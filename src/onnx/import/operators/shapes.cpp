// Nodes that move numbers or only name them otherwise. Most add nothing to the graph.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Other dimensions for the same numbers. Dimensions without the batch.
Status define_reshaped(ImportContext& context, const NodeData& node, Imported value,
                       const std::vector<int64_t>& dims) {
  const bool was_flat = value.layout.dims().size() == 1;
  if (!value.layout.reshape(dims)) {
    return invalid_input(
        "cuts the dimensions of channels-last values where they do not lie together");
  }
  // Pixels are scaled by channel: this works while a dimension still holds the channels, in a
  // vector of all pixels, or if there is one channel.
  const std::vector<int64_t>& now = value.layout.dims();
  const int64_t channels = std::ssize(value.scale);
  const size_t rank = context.signal != SignalAxes::kNone && now.size() == 2 ? 2 : 3;
  const bool has_channels =
      now.size() == rank && (now[0] == channels || now[rank - 1] == channels);
  if (channels > 1 && (was_flat || !(has_channels || now.size() == 1))) {
    return invalid_input("rearranges pixels before the first layer");
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

// Axes of a value with its batch, as non-negative numbers; an error if one is the batch or out of
// range.
Result<std::vector<int64_t>> checked_axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) {
    axis += axis < 0 ? rank : 0;
    if (axis < 1 || axis >= rank) {
      return invalid_input(axis == 0 ? "works on the batch dimension" : "has an axis out of range");
    }
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) == axes.end()) return axes;
  return invalid_input("has an axis twice");
}

}  // namespace

Status import_flatten(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const int64_t rank = std::ssize(value.layout.dims()) + 1, axis = whole_of(node, "axis", 1);
  if (axis != 1 && axis != 1 - rank) return invalid_input("flattens from another axis than 1");
  const int64_t count = value.layout.count();
  return define_reshaped(context, node, std::move(value), {count});
}

Status import_reshape(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const auto wanted, list_of(context, node, 1, "shape"));
  if (!wanted || wanted->empty()) return invalid_input("has no shape to reshape to");
  const std::vector<int64_t> is = value.layout.dims();
  std::vector<int64_t> dims(wanted->begin() + 1, wanted->end());
  const int64_t count = value.layout.count(), batch = wanted->front();
  int64_t known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && i < is.size()) dims[i] = is[i];
    if (dims[i] > 0) known *= std::min(dims[i], count / known + 1);  // beyond count: never back
  }
  for (int64_t& dim : dims) {
    if (dim == -1) dim = count / known;
  }
  int64_t all = 1;
  for (const int64_t dim : dims)
    all *= std::clamp<int64_t>(dim, 0, count / std::max<int64_t>(all, 1) + 1);
  const bool keeps_batch = batch == 0 || batch == -1 || batch == context.batch;
  if (keeps_batch && all == count) return define_reshaped(context, node, std::move(value), dims);
  return invalid_input("reshapes over the batch dimension");
}

Status import_squeeze(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const auto given, list_of(context, node, 1, "axes"));
  std::vector<int64_t> dims = value.layout.dims();
  const int64_t rank = std::ssize(dims) + 1;
  std::vector<int64_t> wanted = given.value_or(std::vector<int64_t>{});
  if (!given) {
    for (int64_t i = 0; i < std::ssize(dims); ++i) {
      if (dims[i] == 1) wanted.push_back(i + 1);
    }
  }
  MANTISSA_ASSIGN(const std::vector<int64_t> axes, checked_axes(std::move(wanted), rank));
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (dims[*axis - 1] != 1) return invalid_input("squeezes a dimension of more than 1");
    dims.erase(dims.begin() + (*axis - 1));
  }
  return define_reshaped(context, node, std::move(value), dims);
}

Status import_unsqueeze(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const auto given, list_of(context, node, 1, "axes"));
  if (!given) return invalid_input("has no axes");
  std::vector<int64_t> dims = value.layout.dims();
  MANTISSA_ASSIGN(const std::vector<int64_t> axes,
                  checked_axes(*given, std::ssize(dims) + 1 + std::ssize(*given)));
  for (const int64_t axis : axes) dims.insert(dims.begin() + (axis - 1), 1);
  return define_reshaped(context, node, std::move(value), dims);
}

// The factors of pixels are by channel in our layout, wherever the model has the channels.
Status import_transpose(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const int64_t examples = value.form == Form::kRows ? 0 : 1;  // dimensions that no layout has
  std::vector<int64_t> sorted(value.layout.dims().size() + static_cast<size_t>(examples));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::vector<int64_t> order = wholes_of(node, "perm");
  if (!has_attribute(node, "perm")) order.assign(sorted.rbegin(), sorted.rend());
  const bool is_order =
      std::is_permutation(order.begin(), order.end(), sorted.begin(), sorted.end());
  if (examples > 0 && (!is_order || order[0] != 0)) {
    return invalid_input("moves the batch dimension");
  }
  if (!is_order) return invalid_input("has no permutation of its dimensions");
  std::vector<int> dims;
  for (auto dim = order.begin() + examples; dim != order.end(); ++dim) {
    dims.push_back(static_cast<int>(*dim - examples));
  }
  value.layout.transpose(dims);
  define(context, node.outputs[0], std::move(value));
  return {};
}

// All nodes that name the same numbers otherwise.
Status import_row_reshape(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  MANTISSA_ASSIGN(const std::vector<int64_t> dims, output_dims(context, node));
  if (!value.layout.reshape(dims)) {
    return invalid_input("cuts dimensions where they do not lie together");
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

namespace {

// The places of joined vectors, one after the other.
struct JoinedOrder {
  std::vector<int64_t> places = {};
  bool is_mixed = false;  // some vector's elements lie in another order than the model's

  void add(const Vector& vector, int64_t count) {
    const auto first = std::ssize(places);
    for (int64_t i = 0; i < count; ++i) {
      places.push_back(first + (vector.places.empty() ? i : vector.places[i]));
    }
    is_mixed = is_mixed || !vector.places.empty();
  }
};

bool is_read_by_linear_layers_alone(const ImportContext& context, const std::string& value) {
  const auto readers = context.readers.find(value);
  return readers != context.readers.end() && !context.results.contains(value) &&
         std::all_of(readers->second.begin(), readers->second.end(), [](const NodeData* reader) {
           return reader->op_type == "Gemm" || reader->op_type == "MatMul";
         });
}

}  // namespace

// Joins channels only; of vectors their elements, those of flattened pixels too if linear layers
// alone read them: their weights take the order.
Status import_concat(ImportContext& context, const NodeData& node) {
  std::vector<int> parts;
  JoinedOrder order;
  int64_t rank = 0;
  bool is_last = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    MANTISSA_ASSIGN(Imported input, input_of(context, node, i));
    is_last = i == 0 ? input.is_channels_last() : is_last;
    if (is_last) input.layout.transpose(std::array{2, 0, 1});
    rank = std::ssize(input.layout.dims()) + 1;
    if (rank == 2) {
      MANTISSA_ASSIGN(const Vector vector, vector_of(context, input));
      order.add(vector, input.layout.count());
      parts.push_back(vector.value);
    } else {
      MANTISSA_ASSIGN(const int image, images_of(context, input));
      parts.push_back(image);
    }
  }
  const int64_t axis = whole_of(node, "axis", 1), wanted = is_last ? 3 : 1;
  if (axis != wanted && axis != wanted - rank) {
    return invalid_input("joins along another axis than channels");
  }
  if (order.is_mixed && !is_read_by_linear_layers_alone(context, node.outputs[0])) {
    return invalid_input("joins pixels that were flattened, for other nodes than linear layers");
  }
  const std::string name = node_name(context, node);
  MANTISSA_ASSIGN(const int value, add_node(context, ops::kConcat, name, std::move(parts)));
  define_image(context, node.outputs[0], value);
  if (order.is_mixed) context.values[node.outputs[0]].order = std::move(order.places);
  turn_back(is_last, context.values[node.outputs[0]]);
  return {};
}

namespace {

// The numbers of a constant in front of rows along this axis: the same for all examples.
Result<std::vector<double>> rows_in_front(const TensorData& tensor, const Layout& result,
                                          int64_t axis, int64_t batch, int64_t channels) {
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(tensor));
  Layout layout = result;
  const std::vector<int64_t> dims = result.dims();
  if (std::ssize(tensor.dims) != std::ssize(dims) || tensor.dims[axis] < 1 ||
      !layout.narrow(static_cast<size_t>(axis), tensor.dims[axis]) ||
      layout.dims() != tensor.dims) {
    return invalid_input("its constant has not the shape of rows in front of its other input");
  }
  const std::vector<int64_t> places = layout.places();
  const int64_t size = tensor.dims[axis] * channels;
  if (std::ssize(numbers) != batch * size) {
    return invalid_input("its constant is not some rows for each example");
  }
  std::vector<double> rows(static_cast<size_t>(size));
  for (const bool checks : {false, true}) {
    for (int64_t i = 0; i < std::ssize(numbers); ++i) {
      const int64_t place = (places.empty() ? i : places[i]) % size;
      if (checks && rows[place] != numbers[i]) {
        return invalid_input("its constant differs between examples");
      }
      rows[place] = numbers[i];
    }
  }
  return rows;
}

// A constant before the positions of rows: a class token.
Status add_rows_in_front(ImportContext& context, const NodeData& node, const TensorData& tensor,
                         Imported value, const std::vector<int64_t>& dims, int64_t axis) {
  const int64_t channels = context.builder.shape(value.value).last();
  if (!is_of_positions(context, value, axis)) {
    return invalid_input("joins a constant to something else than positions");
  }
  MANTISSA_ASSIGN(std::vector<double> rows,
                  rows_in_front(tensor, value.layout, axis, context.batch, channels));
  value.layout.narrow(static_cast<size_t>(axis), dims[axis]);
  const std::string name = layer_name(context, node, tensor);
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kPrependRows, name, {value.value},
                                        {{"rows", tensor.dims[axis]}, {"least_bits", kWideBits}},
                                        {std::move(rows)}));
  context.notes.push_back("the constant that " + name +
                          " puts before the positions is a parameter, which is trained");
  define(context, node.outputs[0], std::move(value));
  return {};
}

// Sequences one after the other.
Status join_positions(ImportContext& context, const NodeData& node,
                      const std::vector<int64_t>& dims, int64_t axis) {
  std::vector<int> values;
  std::optional<Layout> layout;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    MANTISSA_ASSIGN(Imported part, plain_input(context, node, i));
    const bool fits = is_of_positions(context, part, axis) &&
                      part.layout.narrow(static_cast<size_t>(axis), dims[axis]) &&
                      (!layout || *layout == part.layout);
    if (!fits) return invalid_input("joins positions with something else");
    layout = part.layout;
    values.push_back(part.value);
  }
  MANTISSA_ASSIGN(
      const int value,
      add_node(context, ops::kConcatPositions, node_name(context, node), std::move(values)));
  define(context, node.outputs[0], {value, std::move(*layout), {}, Form::kRows});
  return {};
}

}  // namespace

// Along a dimension whose parts make up the channels: of channels, or of the last states of layers.
// Or along the positions.
Status import_row_concat(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const std::vector<int64_t> dims, output_dims(context, node));
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", 0), std::ssize(dims)));
  if (const TensorData* tensor = constant_of(context, node, 0); tensor && node.inputs.size() == 2) {
    MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
    MANTISSA_ASSIGN(Imported value, plain_input(context, node, 1));
    return add_rows_in_front(context, node, *tensor, std::move(value), dims, axis);
  }
  if (const auto first = plain_input(context, node, 0);
      first.ok() && is_of_positions(context, *first, axis)) {
    MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
    return join_positions(context, node, dims, axis);
  }
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
  define(context, node.outputs[0], {value, std::move(*layout), {}, Form::kRows});
  return {};
}

namespace {

// Pads the depth of a volume: with one tap, only the padding of depth_taps is left.
Result<int> with_padded_depth(ImportContext& context, const std::string& name, int volume,
                              int64_t front, int64_t back) {
  if (front == 0 && back == 0) return volume;
  return add_depth_taps(context, name, volume, {.front = front, .back = back});
}

// [N, C, D, H, W].
Status pad_volume(ImportContext& context, const NodeData& node, const Imported& input,
                  const std::vector<int64_t>& p) {
  if (p[0] != 0 || p[1] != 0 || p[5] != 0 || p[6] != 0) {
    return invalid_input("pads channels; only depth, height and width can be");
  }
  const std::string name = node.name.empty() ? "pad" : node.name;
  MANTISSA_ASSIGN(int value, images_of(context, input));
  MANTISSA_ASSIGN(value, padded(context, name, value, Sides{p[3], p[4], p[8], p[9]}));
  MANTISSA_ASSIGN(value, with_padded_depth(context, name + ".depth", value, p[2], p[7]));
  define_image(context, node.outputs[0], value);
  return {};
}

}  // namespace

// Pads height and width, and depth, with zeros only.
Status import_pad(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(auto pads, list_of(context, node, 1, "pads"));
  MANTISSA_ASSIGN(const auto number, scalar_of(context, node, 2, "value"));
  if (text_of(node, "mode", "constant") != "constant" || number.value_or(0) != 0) {
    return invalid_input("pads with something else than zeros");
  }
  const size_t sides_of_all = 2 * (input.layout.dims().size() + 1);
  if (!pads || (sides_of_all != 8 && sides_of_all != 10) || pads->size() != sides_of_all ||
      has_input(node, 3)) {
    return invalid_input("pads something else than [N, C, H, W] or [N, C, D, H, W]");
  }
  std::vector<int64_t>& p = *pads;
  if (*std::min_element(p.begin(), p.end()) < 0) return invalid_input("has negative pads");
  if (p.size() == 10) return pad_volume(context, node, input, p);
  const bool is_last = turn_channels_first(input);
  if (is_last) p = {p[0], p[3], p[1], p[2], p[4], p[7], p[5], p[6]};
  if (p[0] != 0 || p[1] != 0 || p[4] != 0 || p[5] != 0) {
    return invalid_input("pads channels; only height and width can be");
  }
  const Sides sides = {p[2], p[3], p[6], p[7]};
  std::vector<double> scale;
  MANTISSA_ASSIGN(const int image, image_of(context, input, &scale));
  MANTISSA_ASSIGN(const int value,
                  padded(context, node.name.empty() ? "pad" : node.name, image, sides));
  define_image(context, node.outputs[0], value);
  context.values[node.outputs[0]].scale = std::move(scale);
  turn_back(is_last, context.values[node.outputs[0]]);
  return {};
}

}  // namespace mantissa::onnx
