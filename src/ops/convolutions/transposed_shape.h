// The shape of a transposed convolution, and its weights as kernels want them.
#pragma once

#include "graph/op.h"
#include "kernels/convolution/convolution.h"
#include "ops/attributes.h"
#include "ops/image_shape.h"

namespace mantissa::ops {

struct TransposedAxis {
  int64_t kernel, stride, padding, output_padding;

  int64_t results(int64_t size) const {
    return (size - 1) * stride + kernel - 2 * padding + output_padding;
  }
};

struct TransposedAxes {
  TransposedAxis vertical, horizontal;
};

// Settings missing for the width are as for the height. A sequence has a width alone; the stride of
// its one row does not matter, and dense kernels want both alike.
inline TransposedAxes transposed_axes(const TransposedAttributes& a, bool of_sequence) {
  const TransposedAxis vertical = {a.kernel, a.stride, a.padding, a.output_padding};
  if (of_sequence) return {{1, a.stride, 0, 0}, vertical};
  return {vertical,
          {a.kernel_width > 0 ? a.kernel_width : a.kernel,
           a.stride_width > 0 ? a.stride_width : a.stride,
           a.padding_width >= 0 ? a.padding_width : a.padding,
           a.output_padding_width >= 0 ? a.output_padding_width : a.output_padding}};
}

// The convolution whose gradient of the input this is: it makes the transposed convolution's input
// of the result. Its weights are [C, KH, KW, O / G]. Shapes have the micro-batch in front.
inline kernels::ConvolutionShape underlying_shape(const TransposedAttributes& attributes,
                                                  const Shape& input, const Shape& output) {
  const auto [vertical, horizontal] = transposed_axes(attributes, are_sequences(input));
  const Shape in = as_images(input), out = as_images(output);
  kernels::ConvolutionShape shape;
  shape.batch = in[0];
  shape.in_height = out[1], shape.in_width = out[2], shape.in_channels = out[3];
  shape.out_height = in[1], shape.out_width = in[2], shape.out_channels = in[3];
  shape.groups = attributes.groups;
  shape.kernel_height = vertical.kernel, shape.kernel_width = horizontal.kernel;
  shape.stride_height = vertical.stride, shape.stride_width = horizontal.stride;
  shape.padding_height = vertical.padding, shape.padding_width = horizontal.padding;
  return shape;
}

// Weights [O, KH, KW, C / G] as [C, KH, KW, O / G], or back with the two exchanged.
template <typename T>
void exchange_channels(const T* from, int64_t out, int64_t taps, int64_t in, int64_t groups,
                       T* to) {
  const int64_t group_out = out / groups, group_in = in / groups;
  for (int64_t o = 0; o < out; ++o) {
    T* const of_group = to + o / group_out * group_in * taps * group_out + o % group_out;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < group_in; ++c) of_group[(c * taps + tap) * group_out] = *from++;
    }
  }
}

}  // namespace mantissa::ops
