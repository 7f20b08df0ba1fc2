// The windows of pools: the same in all arithmetics.
#pragma once

#include "graph/attributes.h"
#include "kernels/pooling/pooling.h"

namespace mantissa::ops {

constexpr AttributeSpec kPoolWindow = whole("window", 2, 1, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolStride = whole("stride", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolPadding = whole("padding", 0, 0, kernels::kLargestPoolWindow);
// For the width; 0 (for padding -1): as for the height.
constexpr AttributeSpec kPoolWindowWidth = whole("window_width", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolStrideWidth = whole("stride_width", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolPaddingWidth =
    whole("padding_width", -1, -1, kernels::kLargestPoolWindow);

struct PoolAxes {
  kernels::PoolAxis vertical, horizontal;
};

// A stride of 0 is as long as the window. Settings missing for the width are as for the height.
inline PoolAxes pool_axes(const Attributes& attributes) {
  const auto given = [&](const char* name, int64_t otherwise) {
    return attributes.is_set(name) ? attributes.whole(name) : otherwise;
  };
  const int64_t window = attributes.whole("window"), padding = attributes.whole("padding");
  const int64_t width = given("window_width", window);
  const int64_t padding_width = attributes.whole("padding_width");
  return {{window, given("stride", window), padding},
          {width, given("stride_width", given("stride", width)),
           padding_width < 0 ? padding : padding_width}};
}

}  // namespace mantissa::ops
