// Convolutions, and those that are a linear layer over all of the image.
#include <algorithm>
#include <utility>

#include "onnx/import/operators.h"
#include "ops/image_shape.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Numbers [O, I, KH, KW] as [O, KH, KW, I]; of volumes [O, I, KD, KH, KW] as [O, KH, KW, I * KD], as
// depth_taps has channels.
std::vector<double> channels_last(const std::vector<double>& from,
                                  const std::vector<int64_t>& dims) {
  const size_t first = dims.size() - 2;
  const int64_t out = dims[0], in = dims[1] * (dims.size() == 5 ? dims[2] : 1),
                taps = dims[first] * dims[first + 1];
  std::vector<double> to(from.size());
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t c = 0; c < in; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        to[(o * taps + tap) * in + c] = from[(o * in + c) * taps + tap];
      }
    }
  }
  return to;
}

constexpr int64_t kMostStep = int64_t{1} << 30;

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  int64_t groups;
};

// Over the axes of an input [H, W, C] or [D, H, W, C].
Result<Window> window_of(const NodeData& node, const TensorData& weights, const Shape& input) {
  const auto axes = static_cast<size_t>(input.rank - 1);
  const int64_t channels = input.last();
  if (weights.dims.size() != axes + 2) {
    return invalid_input("its weights have " + std::to_string(weights.dims.size()) +
                         " dimensions; those of " + (axes == 2 ? "images" : "volumes") + " have " +
                         std::to_string(axes + 2));
  }
  const std::vector<int64_t> ones(axes, 1);
  Window window{{weights.dims.begin() + 2, weights.dims.end()},
                wholes_of(node, "strides", ones),
                wholes_of(node, "dilations", ones),
                whole_of(node, "group", 1)};
  if (window.strides.size() != axes || window.dilations.size() != axes) {
    const std::string count = std::to_string(axes);
    return invalid_input("has other than " + count + " strides and " + count + " dilations");
  }
  std::vector<int64_t> numbers = window.strides;
  numbers.insert(numbers.end(), window.dilations.begin(), window.dilations.end());
  numbers.push_back(window.groups);
  for (const int64_t number : numbers) {
    if (number < 1 || number > kMostStep) {
      return invalid_input("has a stride, dilation or group that is not 1 to " +
                           std::to_string(kMostStep));
    }
  }
  for (const int64_t dim : weights.dims) {
    if (dim < 1 || dim > INT32_MAX) return invalid_input("has weights without numbers");
  }
  if (has_attribute(node, "kernel_shape") && wholes_of(node, "kernel_shape") != window.kernel) {
    return invalid_input("has another kernel_shape than its weights");
  }
  if (weights.dims[0] % window.groups != 0) {
    return invalid_input("has " + std::to_string(window.groups) + " groups, and " +
                         std::to_string(weights.dims[0]) + " output channels");
  }
  if (weights.dims[1] * window.groups != channels) {
    return invalid_input("its weights are for " + std::to_string(weights.dims[1] * window.groups) +
                         " channels, and its input has " + std::to_string(channels));
  }
  // A side of one tap has no dilation.
  const size_t y = axes - 2, x = axes - 1;
  if (window.kernel[y] == 1) window.dilations[y] = window.dilations[x];
  if (window.kernel[x] == 1) window.dilations[x] = window.dilations[y];
  if (window.dilations[y] == window.dilations[x]) return window;
  return invalid_input("has two dilations of height and width");
}

// Weights [O, KH, KW, I * KD] for an input that is `scale` times smaller, by channel.
void scale_inputs(const std::vector<double>& scale, int64_t groups, const TensorData& weights,
                  std::vector<double>& numbers) {
  if (scale.empty()) return;
  const int64_t in = weights.dims[1], rows = weights.dims[0] / groups;
  const int64_t depth = weights.dims.size() == 5 ? weights.dims[2] : 1;
  const int64_t row = std::ssize(numbers) / weights.dims[0];
  for (int64_t i = 0; i < std::ssize(numbers); ++i) {
    numbers[i] *= scale[i / row / rows * in + i % (in * depth) / depth];
  }
}

}  // namespace

bool is_result(const ImportContext& context, std::string value) {
  while (!context.results.contains(value)) {
    const auto readers = context.readers.find(value);
    if (readers == context.readers.end() || readers->second.size() != 1) return false;
    const NodeData& reader = *readers->second[0];
    constexpr std::string_view kNames[] = {"Flatten", "Identity",  "Reshape",  "Squeeze",
                                           "Cast",    "Transpose", "Unsqueeze"};
    const bool is_pair =
        (context.signal != SignalAxes::kNone || context.form == Form::kRows) &&
        (reader.op_type == "QuantizeLinear" || reader.op_type == "DequantizeLinear");
    if (!is_pair &&
        std::find(std::begin(kNames), std::end(kNames), reader.op_type) == std::end(kNames)) {
      return false;
    }
    value = reader.outputs[0];
  }
  return true;
}

namespace {

// A convolution whose one window is all of the image, and whose results are the model's: the linear
// layer of a classifier. `numbers` are weights and perhaps a bias.
Status add_head(ImportContext& context, const Affine& affine, const std::string& name, int image,
                int64_t channels, std::vector<std::vector<double>> numbers) {
  const int rank = context.builder.shape(image).rank;
  std::vector<int64_t> dims(static_cast<size_t>(std::max(3, rank)), 1);
  dims[0] = channels;
  if (rank != 1) {
    MANTISSA_ASSIGN(image, add_node(context, ops::kFlatten, new_name(context, "flatten"), {image}));
  }
  const auto has_bias = static_cast<int64_t>(numbers.size()) - 1;
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kLinear, name, {image},
                           {{"channels", channels}, {"bias", has_bias}, {"classifier", true}},
                           std::move(numbers)));
  define(context, affine.result, {value, of_one_place(dims), {}});
  return {};
}

// A convolution over one axis that makes the model's result, a class for each position: of a
// sequence [T, C], not of an image of one row, so that the loss reads its own sums.
Status add_position_head(ImportContext& context, const Affine& affine, const std::string& name,
                         int image, Attributes attributes,
                         std::vector<std::vector<double>> numbers) {
  const Shape shape = context.builder.shape(image);
  MANTISSA_ASSIGN(const int sequence,
                  add_node(context, ops::kReshape, new_name(context, "reshape"), {image},
                           {{"width", shape[1]}, {"channels", shape[2]}}));
  MANTISSA_ASSIGN(const int value, add_node(context, ops::kConvolution, name, {sequence},
                                            attributes, std::move(numbers)));
  const Shape result = context.builder.shape(value);
  define(context, affine.result, {value, Layout::image(1, result[0], result[1]), {}});
  return {};
}

}  // namespace

Status import_convolution(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  std::vector<double> scale;
  MANTISSA_ASSIGN(int image, images_of(context, input, &scale));
  const Shape input_shape = context.builder.shape(image), shape = ops::as_image(input_shape);
  MANTISSA_ASSIGN(Window w, window_of(node, *tensor, input_shape));
  MANTISSA_ASSIGN(Sides sides, sides_of(node, input_shape, w.kernel, w.strides, w.dilations));
  const DepthWindow depth = take_depth(sides, w.kernel, w.strides, w.dilations);
  const std::vector<int64_t> padding = take_symmetric(sides);
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(*tensor));
  numbers = channels_last(numbers, tensor->dims);
  scale_inputs(scale, w.groups, *tensor, numbers);
  const int64_t channels = tensor->dims[0];
  MANTISSA_ASSIGN(std::vector<double> bias, bias_of(context, node, channels));
  const Affine affine = absorb_affine(context, node.outputs[0], {channels, input_shape.rank + 1});
  take_in(affine, numbers, bias);
  const std::string name = layer_name(context, node, *tensor);
  MANTISSA_ASSIGN(image, padded(context, name + ".pad", image, sides));
  MANTISSA_ASSIGN(image, add_depth_taps(context, name + ".taps", image, depth));
  const int64_t has_bias = bias.empty() ? 0 : 1;
  std::vector<std::vector<double>> all = {std::move(numbers)};
  if (!bias.empty()) all.push_back(std::move(bias));
  const bool is_of_one_image =
      input_shape.rank == 3 || (input_shape[0] == 1 && depth.is_one_image());
  const bool is_whole = is_of_one_image && w.groups == 1 && w.kernel[0] == shape[0] && w.kernel[1] == shape[1] &&
                        padding == std::vector<int64_t>{0, 0} && !sides.any();
  if (is_whole && is_result(context, affine.result)) {
    return add_head(context, affine, name, image, channels, std::move(all));
  }
  const bool is_of_positions = context.signal != SignalAxes::kNone && shape[0] == 1 &&
                               w.kernel[0] == 1 && padding[0] == 0;
  if (is_of_positions && is_result(context, affine.result)) {
    return add_position_head(context, affine, name, image,
                             {{"channels", channels},
                              {"kernel", w.kernel[1]},
                              {"stride", w.strides[1]},
                              {"padding", width_of(padding, padding[0])},
                              {"groups", w.groups},
                              {"dilation", w.dilations[0]},
                              {"bias", has_bias}},
                             std::move(all));
  }
  MANTISSA_ASSIGN(const int value, add_node(context, ops::kConvolution, name, {image},
                                            {{"channels", channels},
                                             {"kernel", w.kernel[0]},
                                             {"kernel_width", width_of(w.kernel, 0)},
                                             {"stride", w.strides[0]},
                                             {"stride_width", width_of(w.strides, 0)},
                                             {"padding", padding[0]},
                                             {"padding_width", width_of(padding, -1)},
                                             {"groups", w.groups},
                                             {"dilation", w.dilations[0]},
                                             {"bias", has_bias}},
                                            std::move(all)));
  define_image(context, affine.result, value);
  return {};
}

}  // namespace mantissa::onnx
