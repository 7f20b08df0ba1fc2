// Nodes that make images larger: transposed convolutions, and resizing.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "onnx/import/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kLargestStep = int64_t{1} << 20;

// Numbers [I, O / G, KH, KW] as [O, KH, KW, I / G], for inputs that are `scale` times smaller, by
// channel.
std::vector<double> outputs_first(const std::vector<double>& from, const std::vector<int64_t>& dims,
                                  int64_t groups, const std::vector<double>& scale) {
  const int64_t in = dims[0] / groups, out = dims[1], taps = dims[2] * dims[3];
  std::vector<double> to(from.size());
  for (int64_t i = 0; i < dims[0]; ++i) {
    const double factor = scale.empty() ? 1 : scale[static_cast<size_t>(i)];
    const int64_t of_group = i / in * out * taps * in + i % in;
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        to[of_group + (o * taps + tap) * in] = factor * from[(i * out + o) * taps + tap];
      }
    }
  }
  return to;
}

// The kernel along one axis. More padding before than behind is a larger output_padding.
struct Axis {
  int64_t kernel = 1, stride = 1, padding = 0, output_padding = 0;
};

struct Transposed {
  Axis vertical, horizontal;
  int64_t groups = 1;
};

Result<Transposed> transposed_of(const NodeData& node, const TensorData& weights,
                                 int64_t channels) {
  if (weights.dims.size() != 4) return invalid_input("its weights have not 4 dimensions");
  const int64_t groups = whole_of(node, "group", 1);
  if (groups < 1 || channels % groups != 0) {
    return invalid_input("has " + std::to_string(groups) + " groups of " +
                         std::to_string(channels) + " channels");
  }
  if (weights.dims[0] != channels) {
    return invalid_input("its weights are for " + std::to_string(weights.dims[0]) +
                         " channels, and its input has " + std::to_string(channels));
  }
  for (const int64_t dilation : wholes_of(node, "dilations", {1, 1})) {
    if (dilation != 1) return invalid_input("has a dilation");
  }
  const std::string automatic = text_of(node, "auto_pad", "NOTSET");
  if (has_attribute(node, "output_shape") || (automatic != "NOTSET" && automatic != "VALID")) {
    return invalid_input("says the shape of its result in place of its padding");
  }
  const auto strides = wholes_of(node, "strides", {1, 1});
  const auto pads = wholes_of(node, "pads", {0, 0, 0, 0});
  const auto more = wholes_of(node, "output_padding", {0, 0});
  if (strides.size() != 2 || pads.size() != 4 || more.size() != 2) {
    return invalid_input("is no transposed convolution of images");
  }
  const auto axis = [&](size_t i) -> Result<Axis> {
    const Axis one = {weights.dims[2 + i], strides[i], pads[i], more[i] + pads[i] - pads[2 + i]};
    const bool is_small = one.kernel >= 1 && one.kernel <= kLargestStep && one.stride >= 1 &&
                          one.stride <= kLargestStep && one.padding >= 0 &&
                          one.padding <= kLargestStep;
    if (!is_small) return invalid_input("has a kernel, stride or padding that is not possible");
    if (one.output_padding >= 0 && one.output_padding < one.stride) return one;
    return invalid_input("pads opposite sides so differently that the stride does not make it up");
  };
  MANTISSA_ASSIGN(const Axis vertical, axis(0));
  MANTISSA_ASSIGN(const Axis horizontal, axis(1));
  return Transposed{vertical, horizontal, groups};
}

// How Resize finds the place of a result in its input.
struct Places {
  std::string mode, coordinates, nearest;
  std::vector<double> scales;  // of [N, C, H, W]; empty: sizes say them

  double scale(size_t axis, int64_t in, int64_t out) const {
    return scales.empty() ? static_cast<double>(out) / static_cast<double>(in) : scales[axis];
  }
  double place(int64_t i, int64_t in, int64_t out, double scale) const {
    const auto at = static_cast<double>(i);
    if (coordinates == "asymmetric") return at / scale;
    if (coordinates == "align_corners") {
      return out == 1 ? 0 : at * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    }
    if (coordinates == "pytorch_half_pixel" && out == 1) return 0;
    return (at + 0.5) / scale - 0.5;
  }
  int64_t nearest_of(double place) const {
    if (nearest == "floor") return static_cast<int64_t>(std::floor(place));
    if (nearest == "ceil") return static_cast<int64_t>(std::ceil(place));
    const double down = std::floor(place);
    const bool is_half = place - down == 0.5;
    if (is_half) return static_cast<int64_t>(nearest == "round_prefer_ceil" ? down + 1 : down);
    return static_cast<int64_t>(std::floor(place + 0.5));
  }
};

Result<Places> places_of(const ImportContext& context, const NodeData& node) {
  const bool is_old = node.op_type == "Upsample";
  Places places{.mode = text_of(node, "mode", "nearest"),
                .coordinates = text_of(node, "coordinate_transformation_mode",
                                       is_old ? "asymmetric" : "half_pixel"),
                .nearest = text_of(node, "nearest_mode", is_old ? "floor" : "round_prefer_floor"),
                .scales = {}};
  if (whole_of(node, "antialias", 0) != 0) return invalid_input("has antialias");
  if (has_attribute(node, "axes")) return invalid_input("resizes chosen axes");
  if (text_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch") {
    return invalid_input("keeps the proportions of its input");
  }
  for (const char* known : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    if (places.coordinates != known) continue;
    // Operator set 10 has the scales as input 1.
    const size_t input = is_old || node.inputs.size() == 2 ? 1 : 2;
    const TensorData* tensor = constant_of(context, node, input);
    if (tensor == nullptr) return places;
    MANTISSA_ASSIGN(places.scales, numbers_of(*tensor));
    if (places.scales.size() != 4) places.scales.clear();
    return places;
  }
  return invalid_input("has coordinates by '" + readable(places.coordinates) + "'");
}

// The factor by which an axis is repeated; nothing: it is resized otherwise.
std::optional<int64_t> repetition(const Places& places, size_t axis, int64_t in, int64_t out) {
  if (out % in != 0) return std::nullopt;
  const double scale = places.scale(axis, in, out);
  for (int64_t i = 0; i < out; ++i) {
    const int64_t from = places.nearest_of(places.place(i, in, out, scale));
    if (std::clamp<int64_t>(from, 0, in - 1) != i / (out / in)) return std::nullopt;
  }
  return out / in;
}

// Whether the scale is the quotient of the sizes.
bool is_exact(const Places& places, size_t axis, int64_t in, int64_t out) {
  const double scale = places.scale(axis, in, out);
  return std::abs(scale * static_cast<double>(in) - static_cast<double>(out)) < 1e-4;
}

}  // namespace

Status import_transposed(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  std::vector<double> scale;
  MANTISSA_ASSIGN(const int image, image_of(context, input, &scale));
  MANTISSA_ASSIGN(const Transposed t,
                  transposed_of(node, *tensor, context.builder.shape(image).last()));
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(*tensor));
  numbers = outputs_first(numbers, tensor->dims, t.groups, scale);
  const int64_t channels = tensor->dims[1] * t.groups;
  MANTISSA_ASSIGN(std::vector<double> bias, bias_of(context, node, channels));
  const Affine affine = absorb_affine(context, node.outputs[0], {channels, 4});
  take_in(affine, numbers, bias);
  const int64_t has_bias = bias.empty() ? 0 : 1;
  std::vector<std::vector<double>> all = {std::move(numbers)};
  if (!bias.empty()) all.push_back(std::move(bias));
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kTransposedConvolution,
                           layer_name(context, node, *tensor), {image},
                           {{"channels", channels},
                            {"kernel", t.vertical.kernel},
                            {"kernel_width", t.horizontal.kernel},
                            {"stride", t.vertical.stride},
                            {"stride_width", t.horizontal.stride},
                            {"padding", t.vertical.padding},
                            {"padding_width", t.horizontal.padding},
                            {"output_padding", t.vertical.output_padding},
                            {"output_padding_width", t.horizontal.output_padding},
                            {"groups", t.groups},
                            {"bias", has_bias}},
                           std::move(all)));
  define_image(context, affine.result, value);
  return {};
}

Status import_resize(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  std::vector<double> scale;
  MANTISSA_ASSIGN(const int image, image_of(context, input, &scale));
  MANTISSA_ASSIGN(const Places places, places_of(context, node));
  const auto known = context.shapes.find(node.outputs[0]);
  const Shape shape = context.builder.shape(image);
  if (known == context.shapes.end() || known->second.size() != 4 ||
      known->second[1] != shape.last()) {
    return invalid_input("resizes something else than height and width");
  }
  const int64_t height = known->second[2], width = known->second[3];
  std::optional<Result<int>> value;
  if (places.mode == "nearest") {
    const auto down = repetition(places, 2, shape[0], height);
    const auto across = repetition(places, 3, shape[1], width);
    if (!down || !across) {
      return invalid_input("takes the nearest pixels by other than whole factors");
    }
    value = add_node(context, ops::kUpsample, node_name(context, node), {image},
                     {{"factor", *down}, {"factor_width", *across == *down ? 0 : *across}});
  } else if (places.mode == "linear") {
    if (places.coordinates == "asymmetric") {
      return invalid_input("interpolates from the corners of pixels (asymmetric)");
    }
    if (!is_exact(places, 2, shape[0], height) || !is_exact(places, 3, shape[1], width)) {
      return invalid_input("has a scale that is not the quotient of its sizes");
    }
    const int64_t aligns = places.coordinates == "align_corners" ? 1 : 0;
    value = add_node(context, ops::kBilinearResize, node_name(context, node), {image},
                     {{"height", height}, {"width", width}, {"align_corners", aligns}});
  } else {
    return invalid_input("resizes by '" + readable(places.mode) + "'");
  }
  if (!value->ok()) return value->error();
  define_image(context, node.outputs[0], **value);
  context.values[node.outputs[0]].scale = std::move(scale);
  return {};
}

}  // namespace mantissa::onnx
