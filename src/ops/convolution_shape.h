// The shape of a convolution, from its attributes and operands.
#pragma once

#include "graph/op.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::ops {

// Weights [O, KH, KW, C / G] of a convolution, or [O, C] of a linear layer, whose rows are all
// vectors of the last dimension: of [N, C], [N, T, C] ...
inline kernels::ConvolutionShape convolution_shape(const Attributes& attributes, const Shape& input,
                                                   const Shape& output, const Shape& weights) {
  kernels::ConvolutionShape shape;
  shape.batch = input.count() / input.last();
  shape.in_channels = input.last();
  shape.out_channels = output.last();
  if (weights.rank == 4) {
    shape.batch = input[0];
    shape.in_height = input[1], shape.in_width = input[2];
    shape.out_height = output[1], shape.out_width = output[2];
    shape.kernel_height = weights[1], shape.kernel_width = weights[2];
    shape.stride = attributes.whole("stride");
    shape.padding = attributes.whole("padding");
    shape.groups = attributes.whole("groups");
    // One tap is no distance from the next.
    if (shape.kernel_height > 1) shape.dilation = attributes.whole("dilation");
  }
  return shape;
}

inline kernels::ConvolutionShape convolution_shape(const OpShapes& s) {
  return convolution_shape(*s.attributes, s.inputs[0], s.output, s.parameters[0]);
}

inline kernels::ConvolutionShape convolution_shape(const OpContext& c, const Shape& input,
                                                   const Shape& output) {
  return convolution_shape(*c.attributes, input, output, c.parameters[0].mantissa.shape);
}

}  // namespace mantissa::ops
