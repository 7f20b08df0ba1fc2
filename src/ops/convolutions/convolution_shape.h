// The shape of a convolution, from its attributes and operands.
#pragma once

#include "graph/op.h"
#include "kernels/convolution/convolution.h"
#include "ops/attributes.h"
#include "ops/image_shape.h"

namespace mantissa::ops {

// A convolution along one axis.
struct ConvolutionAxis {
  int64_t kernel, stride, padding;
};

struct ConvolutionAxes {
  ConvolutionAxis vertical, horizontal;
};

// Settings missing for the width are as for the height. A sequence has a width alone. If it is
// causal, all padding lies before it, as much as the first result needs.
inline ConvolutionAxes convolution_axes(const LayerAttributes& attributes, bool of_sequence) {
  const ConvolutionAxis vertical = {attributes.kernel, attributes.stride, attributes.padding};
  ConvolutionAxis horizontal = vertical;
  if (of_sequence) {
    if (attributes.causal) horizontal.padding = (attributes.kernel - 1) * attributes.dilation;
    // The stride of the one row does not matter; dense kernels want both alike.
    return {{1, attributes.stride, 0}, horizontal};
  }
  if (attributes.kernel_width > 0) horizontal.kernel = attributes.kernel_width;
  if (attributes.stride_width > 0) horizontal.stride = attributes.stride_width;
  const int64_t padding = attributes.padding_width;
  if (padding >= 0) horizontal.padding = padding;
  return {vertical, horizontal};
}

// Weights [O, KH, KW, C / G] of a convolution, [O, 1, K, C / G] if it is of sequences [N, T, C]; or
// [O, C] of a linear layer, whose rows are all vectors of the last dimension: of [N, C], [N, T, C]
// ...
inline kernels::ConvolutionShape convolution_shape(const LayerAttributes& attributes,
                                                   const Shape& input, const Shape& output,
                                                   const Shape& weights) {
  kernels::ConvolutionShape shape;
  shape.batch = input.count() / input.last();
  shape.in_channels = input.last();
  shape.out_channels = output.last();
  if (weights.rank == 4) {
    const Shape in = as_images(input), out = as_images(output);
    shape.batch = in[0];
    shape.in_height = in[1], shape.in_width = in[2];
    shape.out_height = out[1], shape.out_width = out[2];
    shape.kernel_height = weights[1], shape.kernel_width = weights[2];
    const auto [vertical, horizontal] = convolution_axes(attributes, are_sequences(input));
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
