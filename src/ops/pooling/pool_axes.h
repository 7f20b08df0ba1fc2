// The windows of pools: the same in all arithmetics.
#pragma once

#include "kernels/pooling/pooling.h"
#include "ops/attributes.h"
#include "ops/image_shape.h"

namespace mantissa::ops {

constexpr AttributeSpec kPoolWindow =
    whole<&PoolAttributes::window>("window", 2, 1, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolStride =
    whole<&PoolAttributes::stride>("stride", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolPadding =
    whole<&PoolAttributes::padding>("padding", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolWindowWidth =
    whole<&PoolAttributes::window_width>("window_width", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolStrideWidth =
    whole<&PoolAttributes::stride_width>("stride_width", 0, 0, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolPaddingWidth =
    whole<&PoolAttributes::padding_width>("padding_width", -1, -1, kernels::kLargestPoolWindow);
constexpr AttributeSpec kPoolOver = text<&PoolAttributes::over>("over", "image", "image depth");

struct PoolAxes {
  kernels::PoolAxis vertical, horizontal;
};

// A stride of 0 is as long as the window. Settings missing for the width are as for the height. A
// sequence has a width alone. Of a volume's depth: the height of pooled_images.
inline PoolAxes pool_axes(const PoolAttributes& a, bool of_sequence) {
  const kernels::PoolAxis one = {a.window, a.stride > 0 ? a.stride : a.window, a.padding};
  if (a.over == PooledAxes::kDepth) return {one, {1, 1, 0}};
  if (of_sequence) return {{1, 1, 0}, one};
  const int64_t width = a.window_width > 0 ? a.window_width : a.window;
  const int64_t stride_width = a.stride_width > 0 ? a.stride_width : a.stride;
  return {{a.window, a.stride > 0 ? a.stride : a.window, a.padding},
          {width, stride_width > 0 ? stride_width : width,
           a.padding_width < 0 ? a.padding : a.padding_width}};
}

// The images that windows lie in, of values with the micro-batch in front. Windows over the depth
// see a volume [D, H, W, C] as one image [D, H * W, C].
inline Shape pooled_images(const PoolAttributes& attributes, const Shape& shape) {
  if (attributes.over == PooledAxes::kImage) return as_images(shape);
  return {shape[0], shape[1], shape[2] * shape[3], shape[4]};
}

// The windows of these images.
inline kernels::PoolShape pool_shape(const PoolAttributes& attributes, const Shape& input,
                                     const Shape& output) {
  const auto [vertical, horizontal] = pool_axes(attributes, are_sequences(input));
  const Shape in = pooled_images(attributes, input), out = pooled_images(attributes, output);
  return {in[1], in[2], in[3], out[1], out[2], vertical, horizontal};
}

}  // namespace mantissa::ops
