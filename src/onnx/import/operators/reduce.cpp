// Maxima, means, sums and softmax over axes.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "onnx/evaluate/op_table.h"
#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// The axes of the graph's value that an axis of the model is; nothing: it is none of them.
struct GraphAxis {
  bool height = false, width = false, channels = false;
};

// Of [H, W, C], [positions, C] (whose positions count as height) or [C], in which the elements of a
// dimension of this size lie so far apart.
std::optional<GraphAxis> graph_axis(const Shape& shape, int64_t size, int64_t step) {
  const int64_t channels = shape.last(), width = shape.rank == 3 ? shape[1] : 1;
  const int64_t height = shape.rank > 1 ? shape[0] : 1;
  if (step == 1 && size == channels) return GraphAxis{.channels = true};
  if (shape.rank > 3) return std::nullopt;  // of volumes no axis alone
  if (step == channels && size == height * width) {
    return GraphAxis{.height = height > 1, .width = width > 1};
  }
  if (step == channels && size == width) return GraphAxis{.width = true};
  if (step == width * channels && size == height) return GraphAxis{.height = true};
  return std::nullopt;
}

// The model's axes, counting the batch: those of the node, or all.
Result<std::set<int64_t>> axes_of(const ImportContext& context, const NodeData& node,
                                  int64_t rank) {
  MANTISSA_ASSIGN(const auto given, list_of(context, node, 1, "axes"));
  std::set<int64_t> axes;
  if (!given || given->empty()) {
    if (whole_of(node, "noop_with_empty_axes", 0) != 0) return axes;
    for (int64_t axis = 0; axis < rank; ++axis) axes.insert(axis);
  } else {
    for (const int64_t axis : *given) {
      MANTISSA_ASSIGN(const int64_t from_front, checked_axis(axis, rank));
      axes.insert(from_front);
    }
  }
  if (!axes.contains(context.batch_axis)) return axes;
  return invalid_input("goes over the examples of a batch");
}

// The graph's axes of these dimensions of the layout, which become 1.
Result<GraphAxis> take_axes(const Shape& shape, const std::set<int64_t>& dims, Layout& layout) {
  GraphAxis all;
  const Layout before = layout;
  for (const int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    const int64_t size = before.dims()[d];
    if (size == 1) continue;
    const auto found = graph_axis(shape, size, before.step_of(d));
    if (!found || !layout.narrow(d, 1)) return invalid_input("goes over a part of an axis");
    all.height |= found->height;
    all.width |= found->width;
    all.channels |= found->channels;
  }
  return all;
}

// One node for positions, for height or width alone, and one for channels.
Result<int> add_reductions(ImportContext& context, const NodeData& node, const Op& op, int value,
                           const GraphAxis& axes) {
  const auto add = [&](const Op& with, const char* over) -> Result<int> {
    const Attributes attributes =
        &with == &ops::kGlobalAveragePool ? Attributes() : Attributes({{"over", over}});
    return add_node(context, with, node_name(context, node), {value}, attributes);
  };
  const Shape shape = context.builder.shape(value);
  const bool is_picture = shape.rank == 3;
  const bool all_positions =
      is_picture ? (axes.height || shape[0] == 1) && (axes.width || shape[1] == 1) : axes.height;
  if (all_positions && (axes.height || axes.width)) {
    const bool is_mean = &op == &ops::kReduceMean && is_picture;
    MANTISSA_ASSIGN(value, add(is_mean ? ops::kGlobalAveragePool : op, "positions"));
  } else if (axes.height || axes.width) {
    MANTISSA_ASSIGN(value, add(op, axes.height ? "height" : "width"));
  }
  if (axes.channels) {
    MANTISSA_ASSIGN(value, add(op, "channels"));
  }
  return value;
}

// The node's input, an image without a factor.
Result<Imported> unscaled_image(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  if (value.scale.empty()) return value;
  const bool is_last = turn_channels_first(value);
  MANTISSA_ASSIGN(const int image, image_of(context, value));
  define_image(context, node.outputs[0], image);
  value = context.values[node.outputs[0]];
  turn_back(is_last, value);
  return value;
}

// The dimension of a Softmax, counting the batch.
Result<int64_t> softmax_axis(const ImportContext& context, const NodeData& node, int64_t rank) {
  const bool is_old = opset_of(node, context.opset) < 13;
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", is_old ? 1 : -1), rank));
  if (axis == context.batch_axis) return invalid_input("goes over the examples of a batch");
  if (!is_old || axis == rank - 1) return axis;
  return invalid_input("is over several dimensions at once, as before operator set 13");
}

// Over a dimension of the value's layout.
Status softmax_over(ImportContext& context, const NodeData& node, Imported value, int64_t dim) {
  Layout narrowed = value.layout;
  const Shape shape = context.builder.shape(value.value);
  MANTISSA_ASSIGN(const GraphAxis axis, take_axes(shape, {dim}, narrowed));
  const bool is_picture = shape.rank == 3;
  const bool all_positions =
      is_picture ? axis.height && axis.width : axis.height;
  const char* const over = axis.channels     ? "channels"
                           : all_positions   ? "positions"
                           : axis.height     ? "height"
                           : axis.width      ? "width"
                                             : nullptr;
  if (over == nullptr || (axis.channels && (axis.height || axis.width))) {
    return invalid_input("is over one number, or over channels and positions at once");
  }
  if (!axis.channels) MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kSoftmax, node_name(context, node),
                                        {value.value}, {{"over", over}}));
  define(context, node.outputs[0], std::move(value));
  return {};
}

std::vector<int64_t> without(const std::vector<int64_t>& dims, const std::set<int64_t>& left_out) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < std::ssize(dims); ++i) {
    if (!left_out.contains(i)) kept.push_back(dims[i]);
  }
  return kept;
}

}  // namespace

Status add_reduction(ImportContext& context, const NodeData& node, const Op& op) {
  MANTISSA_ASSIGN(Imported value, unscaled_image(context, node));
  MANTISSA_ASSIGN(const std::set<int64_t> axes,
                  axes_of(context, node, std::ssize(value.layout.dims()) + 1));
  std::set<int64_t> dims;
  for (const int64_t axis : axes) dims.insert(axis - 1);  // layouts leave the examples out
  MANTISSA_ASSIGN(const GraphAxis over,
                  take_axes(context.builder.shape(value.value), dims, value.layout));
  MANTISSA_ASSIGN(value.value, add_reductions(context, node, op, value.value, over));
  if (whole_of(node, "keepdims", 1) == 0) {
    value.layout.reshape(without(value.layout.dims(), dims));
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status add_row_reduction(ImportContext& context, const NodeData& node, const Op& op) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const std::set<int64_t> dims,
                  axes_of(context, node, std::ssize(value.layout.dims())));
  MANTISSA_ASSIGN(const GraphAxis over,
                  take_axes(context.builder.shape(value.value), dims, value.layout));
  if (over.height) MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(value.value, add_reductions(context, node, op, value.value, over));
  if (whole_of(node, "keepdims", 1) == 0) {
    value.layout.reshape(without(value.layout.dims(), dims));
  }
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status import_image_softmax(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, unscaled_image(context, node));
  MANTISSA_ASSIGN(const int64_t axis,
                  softmax_axis(context, node, std::ssize(value.layout.dims()) + 1));
  return softmax_over(context, node, std::move(value), axis - 1);
}

Status import_row_softmax(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const int64_t axis,
                  softmax_axis(context, node, std::ssize(value.layout.dims())));
  return softmax_over(context, node, std::move(value), axis);
}

Status import_global_max_pool(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(const int image, images_of(context, input));
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kReduceMax, node_name(context, node), {image}));
  define(context, node.outputs[0], {value, of_one_place(input.layout.dims()), {}});
  return {};
}

}  // namespace mantissa::onnx
