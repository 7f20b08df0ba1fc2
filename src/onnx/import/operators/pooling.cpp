// Pools and means over an image or a volume, and means over positions.
#include <algorithm>
#include <optional>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

struct Pool {
  int image;
  std::vector<double> scale;  // of its channels, and so of the result
  Attributes attributes;
  std::optional<Attributes> depth;  // of a second pool, over the depth of a volume
  bool is_global;                   // one window, all of the image or volume
  bool is_tiled;                    // square windows side by side, all inside
  bool is_one_pixel;                // the windows of images change nothing
  int64_t window, largest_side;
};

// The windows of a node over an image [H, W, C] or a volume [D, H, W, C].
struct Windows {
  std::vector<int64_t> kernel, strides, dilations;
  Sides sides;
};

Result<Windows> windows_of(const NodeData& node, const Shape& shape) {
  const auto axes = static_cast<size_t>(shape.rank - 1);
  const std::vector<int64_t> ones(axes, 1);
  Windows w{wholes_of(node, "kernel_shape"), wholes_of(node, "strides", ones),
            wholes_of(node, "dilations", ones), {}};
  if (w.kernel.size() != axes || w.strides.size() != axes) {
    return invalid_input(axes == 2 ? "is no pool of images" : "is no pool of volumes");
  }
  for (size_t i = 0; i < axes; ++i) {
    const int64_t least = std::min(w.kernel[i], w.strides[i]);
    if (least < 1 || std::max(w.kernel[i], w.strides[i]) > INT32_MAX) {
      return invalid_input("has a window or stride below 1");
    }
  }
  if (w.dilations != ones) return invalid_input("has dilations");
  MANTISSA_ASSIGN(w.sides, sides_of(node, shape, w.kernel, w.strides, w.dilations));
  return w;
}

Result<Attributes> pool_of_depth(const DepthWindow& depth, int64_t ceil,
                                 std::optional<bool> counts) {
  if (depth.front != depth.back) return invalid_input("pads the ends of the depth differently");
  std::vector<Attributes::Item> items = {{"over", "depth"},
                                         {"window", depth.kernel},
                                         {"stride", depth.stride},
                                         {"padding", depth.front},
                                         {"ceil", ceil}};
  if (counts) items.emplace_back("count_padding", *counts ? 1 : 0);
  return Attributes(std::move(items));
}

Result<Pool> pool_of(ImportContext& context, const NodeData& node, bool is_maximum) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  std::vector<double> scale;
  MANTISSA_ASSIGN(int image, images_of(context, input, &scale));
  const Shape shape = context.builder.shape(image);
  MANTISSA_ASSIGN(Windows w, windows_of(node, shape));
  auto& [window, strides, dilations, sides] = w;
  const bool counts = !is_maximum && whole_of(node, "count_include_pad", 0) != 0;
  const int64_t largest_side = *std::max_element(window.begin(), window.end());
  const bool is_all = std::equal(window.begin(), window.end(), shape.dims.begin());
  const bool is_global = is_all && !sides.any() && sides.front == 0 && sides.back == 0;
  const DepthWindow of_depth = take_depth(sides, window, strides, dilations);
  const std::vector<int64_t> padding = take_symmetric(sides);
  if (sides.any() && !counts && !(is_maximum && is_never_negative(context, image))) {
    return invalid_input(is_maximum ? "pads opposite sides differently, of values below 0"
                                    : "pads opposite sides differently, and does not count that");
  }
  MANTISSA_ASSIGN(image, padded(context, "pad", image, sides));
  const int64_t ceil = whole_of(node, "ceil_mode", 0);
  const bool is_tiled = window == strides && width_of(window, 0) == 0 && ceil == 0 &&
                        padding[0] == 0 && width_of(padding, -1) == -1;
  std::vector<Attributes::Item> items = {
      {"window", window[0]},   {"window_width", width_of(window, 0)},
      {"stride", strides[0]},  {"stride_width", width_of(strides, 0)},
      {"padding", padding[0]}, {"padding_width", width_of(padding, -1)},
      {"ceil", ceil}};
  if (!is_maximum) items.emplace_back("count_padding", counts ? 1 : 0);
  Pool pool{image,     std::move(scale), Attributes(std::move(items)), {},
            is_global, is_tiled,         is_tiled && window[0] == 1,   window[0],
            largest_side};
  if (of_depth.is_one_image() || is_global) return pool;
  MANTISSA_ASSIGN(pool.depth, pool_of_depth(of_depth, ceil,
                                            is_maximum ? std::nullopt : std::optional(counts)));
  return pool;
}

// Adds the pool of images, and one over the depth behind it: maxima of maxima, means of means.
Result<int> add_pools(ImportContext& context, const NodeData& node, const Pool& pool,
                      const Op& of_images, const Attributes& attributes, const Op& of_depth) {
  int value = pool.image;
  if (!pool.is_one_pixel || !pool.depth) {
    MANTISSA_ASSIGN(value,
                    add_node(context, of_images, node_name(context, node), {value}, attributes));
  }
  if (!pool.depth) return value;
  return add_node(context, of_depth, node_name(context, node), {value}, *pool.depth);
}

// [C, 1, 1] or [C], from the mean over an image or a volume. Factors of channels become factors of
// the mean.
Status add_mean(ImportContext& context, const NodeData& node, const Imported& input,
                bool keeps_dims) {
  std::vector<double> scale;
  MANTISSA_ASSIGN(const int image, images_of(context, input, &scale));
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kGlobalAveragePool, node_name(context, node), {image}));
  const int64_t channels = context.builder.shape(value).last();
  Imported mean{value, Layout::vector(channels), std::move(scale)};
  if (keeps_dims) mean.layout = of_one_place(input.layout.dims());
  define(context, node.outputs[0], std::move(mean));
  return {};
}

}  // namespace

bool is_never_negative(const ImportContext& context, int value) {
  const Graph& graph = context.builder.graph();
  constexpr const Op* kPassOn[] = {&ops::kMaxPool,    &ops::kOverlappingMaxPool,
                                   &ops::kAveragePool, &ops::kGlobalAveragePool,
                                   &ops::kReduceMax,  &ops::kReshape,
                                   &ops::kFlatten,    &ops::kDropout};
  int producer = graph.values[value].producer;
  while (producer >= 0 && std::find(std::begin(kPassOn), std::end(kPassOn),
                                    graph.nodes[producer].op) != std::end(kPassOn)) {
    producer = graph.values[graph.nodes[producer].inputs[0]].producer;
  }
  if (producer < 0) return false;
  const Op* op = graph.nodes[producer].op;
  for (const Op* known : {&ops::kRelu, &ops::kRelu6, &ops::kSigmoid, &ops::kHardSigmoid,
                          &ops::kSoftmax}) {
    if (op == known) return true;
  }
  return false;
}

Status import_max_pool(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Pool pool, pool_of(context, node, true));
  constexpr int64_t kLargestWindow = 11;
  if (pool.is_global && pool.largest_side > kLargestWindow) {
    MANTISSA_ASSIGN(const int largest,
                    add_node(context, ops::kReduceMax, node_name(context, node), {pool.image}));
    std::vector<int64_t> dims(static_cast<size_t>(context.builder.shape(pool.image).rank), 1);
    dims[0] = context.builder.shape(largest).last();
    define(context, node.outputs[0], {largest, of_one_place(dims), pool.scale});
    return {};
  }
  const Attributes tiled = {{"window", pool.window}};
  MANTISSA_ASSIGN(const int value,
                  add_pools(context, node, pool,
                            pool.is_tiled ? ops::kMaxPool : ops::kOverlappingMaxPool,
                            pool.is_tiled ? tiled : pool.attributes, ops::kOverlappingMaxPool));
  define_image(context, node.outputs[0], value);
  context.values[node.outputs[0]].scale = pool.scale;
  return {};
}

Status import_average_pool(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Pool pool, pool_of(context, node, false));
  define_image(context, node.outputs[0], pool.image);
  Imported& result = context.values[node.outputs[0]];
  result.scale = pool.scale;
  if (pool.is_global) return add_mean(context, node, Imported(result), true);
  MANTISSA_ASSIGN(const int value, add_pools(context, node, pool, ops::kAveragePool,
                                             pool.attributes, ops::kAveragePool));
  define_image(context, node.outputs[0], value);
  context.values[node.outputs[0]].scale = pool.scale;
  return {};
}

Status import_global_average_pool(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  return add_mean(context, node, input, true);
}

// Over height and width, and depth.
Status import_mean(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(auto axes, list_of(context, node, 1, "axes"));
  const int64_t rank = std::ssize(input.layout.dims()) + 1;
  if (!axes) axes.emplace();
  const bool is_last = turn_channels_first(input);
  for (int64_t& axis : *axes) {
    axis += axis < 0 ? rank : 0;
    if (is_last) axis = axis_of_channels_first(axis);
  }
  std::sort(axes->begin(), axes->end());
  const bool is_over_all = (rank == 4 && *axes == std::vector<int64_t>{2, 3}) ||
                           (rank == 5 && *axes == std::vector<int64_t>{2, 3, 4});
  if (!is_over_all) {
    return add_reduction(context, node, ops::kReduceMean);
  }
  MANTISSA_RETURN_IF_ERROR(add_mean(context, node, input, whole_of(node, "keepdims", 1) != 0));
  turn_back(is_last && whole_of(node, "keepdims", 1) != 0, context.values[node.outputs[0]]);
  return {};
}

// Over all positions.
Status import_row_mean(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const auto axes, list_of(context, node, 1, "axes"));
  const Shape shape = context.builder.shape(value.value);
  const std::vector<int64_t> dims = value.layout.dims();
  int64_t axis = axes && axes->size() == 1 ? axes->front() : INT64_MAX;
  if (axis < 0) axis += std::ssize(dims);
  const bool over_positions = shape.rank == 2 && axis >= 0 && axis < std::ssize(dims) &&
                              dims[axis] == shape[0] &&
                              value.layout.step_of(static_cast<size_t>(axis)) == shape[1];
  if (!over_positions || !value.layout.narrow(static_cast<size_t>(axis), 1)) {
    return add_row_reduction(context, node, ops::kReduceMean);
  }
  MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(const int image,
                  add_node(context, ops::kReshape, new_name(context, "reshape"), {value.value},
                           {{"height", shape[0]}, {"width", int64_t{1}}, {"channels", shape[1]}}));
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kGlobalAveragePool, node_name(context, node), {image}));
  MANTISSA_ASSIGN(const std::vector<int64_t> to, output_dims(context, node));
  if (!value.layout.reshape(to)) return invalid_input("has a result of unexpected dimensions");
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace mantissa::onnx
