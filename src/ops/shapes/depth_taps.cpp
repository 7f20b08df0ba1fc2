// depth_taps: the neighbours of each image of a volume as channels. Channel c becomes the channels
// c * kernel + tap, so that a convolution of images behind it is one over three axes, in groups too.
// Mantissas and the exponent pass on. The gradient of a number that several results read is the
// exact sum, rounded once.
#include "ops/shapes/depth_taps.h"

#include <array>

#include "kernels/common/parallel_ranges.h"
#include "ops/fp32.h"
#include "ops/image_shape.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

// Sums of gradients of 32 bits over kMostTaps fit int64.
constexpr int64_t kMostTaps = 1 << 16;
constexpr int64_t kLargestDepth = int64_t{1} << 31;
constexpr AttributeSpec kTapsSchema[] = {
    whole<&DepthTapsAttributes::kernel>("kernel", 3, 1, kMostTaps),
    whole<&DepthTapsAttributes::stride>("stride", 1, 1, kLargestDepth),
    whole<&DepthTapsAttributes::padding>("padding", 0, 0, kLargestDepth),
    whole<&DepthTapsAttributes::dilation>("dilation", 1, 1, kLargestDepth),
    whole<&DepthTapsAttributes::padding_end>("padding_end", -1, -1, kLargestDepth)};

Result<Shape> infer_taps(const Attributes& given, std::span<const Shape> inputs) {
  const auto& a = given.as<DepthTapsAttributes>();
  if (inputs.size() != 1 || !is_volume(inputs[0])) {
    return invalid_input("wants one [D, H, W, C] input");
  }
  const Shape& in = inputs[0];
  const int64_t padded = in[0] + a.padding + (a.padding_end < 0 ? a.padding : a.padding_end);
  const int64_t room = padded - 1 - (a.kernel - 1) * a.dilation;
  if (room < 0) {
    return invalid_input("a kernel of " + std::to_string(a.kernel) + " with dilation " +
                         std::to_string(a.dilation) + " does not fit a depth of " +
                         std::to_string(padded) + " with its padding");
  }
  const Shape result{room / a.stride + 1, in[1], in[2], in[3] * a.kernel};
  if (in[3] <= kLargestDepth && element_count(result)) return result;
  return invalid_input("makes too many numbers of " + to_string(in));
}

void taps_forward(const OpContext& c) {
  const Tensor &in = c.inputs[0], &out = c.output();
  const DepthTaps taps = depth_taps(c, in.shape, out.shape);
  kernels::with_value_type(out.bits, [&](auto type) {
    using T = decltype(type);
    kernels::parallel_ranges(*c.kernel.pool, taps.volumes * taps.out_depth, 1,
                             [&](int64_t begin, int64_t end, int64_t) {
                               for (int64_t image = begin; image < end; ++image) {
                                 taps.gather(image, in.as<T>(), out.as<T>());
                               }
                             });
  });
  *out.exponent = *in.exponent;
}

// The elements [begin, end) of the gradient, narrowed.
template <typename From>
kernels::WideStatistics narrow_sums(const OpContext& c, const DepthTaps& taps, int64_t begin,
                                    int64_t end, int shift, kernels::WideCounts* counts) {
  constexpr int64_t kBlock = 512;
  std::array<int64_t, kBlock> wide;
  kernels::WideStatistics found;
  for (int64_t at = begin, count = 0; at < end; at += count) {
    const int64_t image = at / taps.elements, first = at % taps.elements;
    count = std::min({kBlock, end - at, taps.elements - first});
    taps.add_readers(image, first, count, c.grad_output().as<From>(), wide.data());
    found += kernels::narrow_counted(*c.kernel.table->wide,
                                     {wide.data(), shift, gradient_from(c.grad_inputs[0], at)}, 0,
                                     count, counts);
  }
  return found;
}

void taps_backward(const OpContext& c) {
  const Tensor &grad_input = c.grad_inputs[0], &grad_output = c.grad_output();
  const DepthTaps taps = depth_taps(c, grad_input.shape, grad_output.shape);
  narrow_gradient(
      c, grad_input, *grad_output.exponent, [&](int shift, const kernels::PassCounts& counts) {
        return kernels::with_wide_gradient_type(grad_output.bits, [&](auto type) {
          return kernels::parallel_statistics(
              *c.kernel.pool, grad_input.count(), kWideGrain,
              [&](int64_t begin, int64_t end, int64_t part) {
                return narrow_sums<decltype(type)>(c, taps, begin, end, shift,
                                                   counts.wide_of(part));
              });
        });
      });
}

}  // namespace

const Op kDepthTaps = {
    .name = "depth_taps",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .attributes = schema<DepthTapsAttributes>(kTapsSchema),
    .infer_shape = infer_taps,
    .integer = {.forward = {.run = taps_forward}, .grad_input = {.run = taps_backward}},
    .emit_gradient = emit_rounded_gradient,
    .fp32 = &fp32::kDepthTaps};

}  // namespace mantissa::ops
