// The shape of a convolution, from its attributes and operands.
#pragma once

#include "graph/op.h"
#include "kernels/convolution/convolution.h"
#include "ops/attributes.h"

namespace mantissa::ops {

// A convolution along one axis.
struct ConvolutionAxis {
  int64_t kernel, stride, padding;
};

struct ConvolutionAxes {
  ConvolutionAxis vertical, horizontal;
};

// Settings missing for the width are as for the height.
inline ConvolutionAxes convolution_axes(const LayerAttributes& attributes) {
  const ConvolutionAxis vertical = {attributes.kernel, attributes.stride, attributes.padding};
  ConvolutionAxis horizontal = vertical;
  if (attributes.kernel_width > 0) horizontal.kernel = attributes.kernel_width;
  if (attributes.stride_width > 0) horizontal.stride = attributes.stride_width;
  const int64_t padding = attributes.padding_width;
  if (padding >= 0) horizontal.padding = padding;
  return {vertical, horizontal};
}

// Weights [O, KH, KW, C / G] of a convolution, or [O, C] of a linear layer, whose rows are all
// vectors of the last dimension: of [N, C], [N, T, C] ...
inline kernels::ConvolutionShape convolution_shape(const LayerAttributes& attributes,
                                                   const Shape& input, const Shape& output,
                                                   const Shape& weights) {
  kernels::ConvolutionShape shape;
  shape.batch = input.count() / input.last();
  shape.in_channels = input.last();
  shape.out_channels = output.last();
  if (weights.rank == 4) {
    shape.batch = input[0];
    shape.in_height = input[1], shape.in_width = input[2];
    shape.out_height = output[1], shape.out_width = output[2];
    shape.kernel_height = weights[1], shape.kernel_width = weights[2];
    const auto [vertical, horizontal] = convolution_axes(attributes);
    shape.stride_height = vertical.stride, shape.stride_width = horizontal.stride;
    shape.padding_height = vertical.padding, shape.padding_width = horizontal.padding;
    shape.groups = attributes.groups;
    // With one tap there is no distance to the next.
    if (shape.kernel_height > 1 || shape.kernel_width > 1) shape.dilation = attributes.dilation;
  }
  return shape;
}

inline kernels::ConvolutionShape convolution_shape(const OpShapes& s) {
  return convolution_shape(s.attributes->as<LayerAttributes>(), s.inputs[0], s.output,
                           s.parameters[0]);
}

inline kernels::ConvolutionShape convolution_shape(const OpContext& c, const Shape& input,
                                                   const Shape& output) {
  return convolution_shape(c.attributes<LayerAttributes>(), input, output,
                           c.parameters[0].mantissa.shape);
}

}  // namespace mantissa::ops
