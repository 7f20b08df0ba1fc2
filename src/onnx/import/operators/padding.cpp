// Padding of windows: of both sides of each axis.
#include <algorithm>

#include "onnx/import/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {

Result<Sides> sides_of(const NodeData& node, const Shape& image, std::span<const int64_t> window,
                       std::span<const int64_t> strides, std::span<const int64_t> dilations) {
  const std::string automatic = text_of(node, "auto_pad", "NOTSET");
  if (automatic == "VALID") return Sides{};
  if (automatic == "NOTSET") {
    const std::vector<int64_t> pads = wholes_of(node, "pads", {0, 0, 0, 0});
    if (pads.size() != 4) return invalid_input("has other than 4 pads");
    if (*std::min_element(pads.begin(), pads.end()) >= 0) {
      return Sides{pads[0], pads[1], pads[2], pads[3]};
    }
    return invalid_input("has negative pads");
  }
  if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") {
    return invalid_input("has an auto_pad of '" + readable(automatic) + "'");
  }
  const auto rest = [&](int axis) {
    const int64_t size = image[axis], results = (size + strides[axis] - 1) / strides[axis];
    const int64_t reach = (window[axis] - 1) * dilations[axis] + 1;
    return std::max<int64_t>(0, (results - 1) * strides[axis] + reach - size);
  };
  const int64_t rows = rest(0), columns = rest(1);
  const bool upper = automatic == "SAME_UPPER";  // the odd row is at the end
  const int64_t top = upper ? rows / 2 : rows - rows / 2;
  const int64_t left = upper ? columns / 2 : columns - columns / 2;
  return Sides{top, left, rows - top, columns - left};
}

std::vector<int64_t> take_symmetric(Sides& sides) {
  const int64_t vertical = std::min(sides.top, sides.bottom);
  const int64_t horizontal = std::min(sides.left, sides.right);
  sides = {sides.top - vertical, sides.left - horizontal, sides.bottom - vertical,
           sides.right - horizontal};
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
