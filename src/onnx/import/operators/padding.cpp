// Padding of windows: of both sides of each axis; and the depth of volumes.
#include <algorithm>

#include "onnx/import/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {

Result<Sides> sides_of(const NodeData& node, const Shape& image, std::span<const int64_t> window,
                       std::span<const int64_t> strides, std::span<const int64_t> dilations) {
  const std::string automatic = text_of(node, "auto_pad", "NOTSET");
  if (automatic == "VALID") return Sides{};
  const size_t axes = window.size(), first = axes - 2;  // the depth, if there is one, is in front
  if (automatic == "NOTSET") {
    const std::vector<int64_t> pads =
        wholes_of(node, "pads", std::vector<int64_t>(2 * axes, int64_t{0}));
    if (pads.size() != 2 * axes) {
      return invalid_input("has other than " + std::to_string(2 * axes) + " pads");
    }
    if (*std::min_element(pads.begin(), pads.end()) < 0) return invalid_input("has negative pads");
    Sides sides = {pads[first], pads[first + 1], pads[axes + first], pads[axes + first + 1]};
    if (axes == 3) sides.front = pads[0], sides.back = pads[3];
    return sides;
  }
  if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") {
    return invalid_input("has an auto_pad of '" + readable(automatic) + "'");
  }
  const auto rest = [&](int axis) {
    const int64_t size = image[axis], results = (size + strides[axis] - 1) / strides[axis];
    const int64_t reach = (window[axis] - 1) * dilations[axis] + 1;
    return std::max<int64_t>(0, (results - 1) * strides[axis] + reach - size);
  };
  const auto before = [&](int64_t all) {  // the odd one is at the end, or at the beginning
    return automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
  };
  const auto axis = [&](size_t i) { return rest(static_cast<int>(i)); };
  const int64_t rows = axis(first), columns = axis(first + 1);
  const int64_t images = axes == 3 ? axis(0) : 0;
  return Sides{before(rows),           before(columns), rows - before(rows),
               columns - before(columns), before(images),  images - before(images)};
}

DepthWindow take_depth(Sides& sides, std::vector<int64_t>& kernel, std::vector<int64_t>& strides,
                       std::vector<int64_t>& dilations) {
  if (kernel.size() != 3) return {};
  const DepthWindow depth = {kernel[0], strides[0], dilations[0], sides.front, sides.back};
  sides.front = sides.back = 0;
  for (std::vector<int64_t>* list : {&kernel, &strides, &dilations}) list->erase(list->begin());
  return depth;
}

Result<int> add_depth_taps(ImportContext& context, const std::string& name, int volume,
                           const DepthWindow& depth) {
  if (depth.is_one_image()) return volume;
  return add_node(context, ops::kDepthTaps, new_name(context, name), {volume},
                  {{"kernel", depth.kernel},
                   {"stride", depth.stride},
                   {"dilation", depth.dilation},
                   {"padding", depth.front},
                   {"padding_end", depth.back == depth.front ? -1 : depth.back}});
}

Layout of_one_place(const std::vector<int64_t>& dims) {
  Layout layout = Layout::vector(dims[0]);
  std::vector<int64_t> ones(dims.size(), 1);
  ones[0] = dims[0];
  layout.reshape(ones);
  return layout;
}

std::vector<int64_t> take_symmetric(Sides& sides) {
  const int64_t vertical = std::min(sides.top, sides.bottom);
  const int64_t horizontal = std::min(sides.left, sides.right);
  sides = {.top = sides.top - vertical,
           .left = sides.left - horizontal,
           .bottom = sides.bottom - vertical,
           .right = sides.right - horizontal,
           .front = sides.front,
           .back = sides.back};
  return {vertical, horizontal};
}

int64_t width_of(std::span<const int64_t> sizes, int64_t same) {
  return sizes[1] == sizes[0] ? same : sizes[1];
}

Result<int> padded(ImportContext& context, const std::string& name, int image, const Sides& sides) {
  if (!sides.any()) return image;
  return add_node(
      context, ops::kPad, new_name(context, name), {image},
      {{"top", sides.top}, {"left", sides.left}, {"bottom", sides.bottom}, {"right", sides.right}});
}

}  // namespace mantissa::onnx
