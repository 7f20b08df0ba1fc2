// Resizing that networks are trained through: by repetition, and by linear interpolation along both
// axes, with weights that are whole numbers over one denominator.
#include <algorithm>
#include <cstring>

#include "kernels/common/parallel_ranges.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/shapes/resize_taps.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kLargestFactor = 64;
constexpr int64_t kLargestResized = 1 << 14;
constexpr AttributeSpec kUpsampleSchema[] = {
    whole<&UpsampleAttributes::factor>("factor", 2, 1, kLargestFactor),
    whole<&UpsampleAttributes::factor_width>("factor_width", 0, 0, kLargestFactor)};
constexpr AttributeSpec kResizeSchema[] = {
    whole<&ResizeAttributes::height>("height", 0, 0, kLargestResized),
    required_whole<&ResizeAttributes::width>("width", 1, kLargestResized),
    flag<&ResizeAttributes::align_corners>("align_corners", false)};

Error wants_image() { return invalid_input("wants one [H, W, C], [T, C] or [D, H, W, C] input"); }

Result<Shape> infer_upsample(const Attributes& given, std::span<const Shape> inputs) {
  const auto& a = given.as<UpsampleAttributes>();
  if (inputs.size() != 1 || !is_of_images(inputs[0])) return wants_image();
  const bool of_sequence = is_sequence(inputs[0]);
  if (of_sequence && a.factor_width > 0) {
    return invalid_input("a sequence [T, C] has no width: factor is of T");
  }
  const Shape image = as_image(inputs[0]);
  const auto [vertical, horizontal] = upsample_factors(a, of_sequence);
  return like_input(Shape{image[0] * vertical, image[1] * horizontal, image[2]}, inputs[0]);
}

void upsample_forward(const OpContext& c) {
  const Tensor& in = c.inputs[0];
  const Shape from = as_images(in.shape), to = as_images(c.output().shape);
  const int64_t bytes = from[3] * element_bytes(in.type), across = to[2] / from[2],
                down = to[1] / from[1];
  const int64_t row_bytes = to[2] * bytes;
  kernels::parallel_ranges(
      *c.kernel.pool, from[0] * from[1],
      std::max<int64_t>(1, kernels::kBytesPerThread / (row_bytes * down)),
      [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = begin; row < end; ++row) {
          const auto* pixel = in.as<std::byte>() + row * from[2] * bytes;
          auto* first = c.output().as<std::byte>() + row * down * row_bytes;
          for (int64_t i = 0; i < to[2]; ++i) {
            std::memcpy(first + i * bytes, pixel + i / across * bytes, static_cast<size_t>(bytes));
          }
          for (int64_t i = 1; i < down; ++i) {
            std::memcpy(first + i * row_bytes, first, static_cast<size_t>(row_bytes));
          }
        }
      });
  *c.output().exponent = *in.exponent;
}

// The sum of the gradients of a number's copies.
void upsample_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Shape to = as_images(grad_input.shape), from = as_images(c.grad_output().shape);
  const int64_t down = from[1] / to[1], across = from[2] / to[2];
  const Mantissas gradient(c.grad_output());
  write_wide_gradient(c, grad_input, *c.grad_output().exponent, [&](int64_t i) {
    const int64_t channel = i % to[3], x = i / to[3] % to[2], row = i / to[3] / to[2];
    int64_t sum = 0;
    for (int64_t dy = 0; dy < down; ++dy) {
      const int64_t first = ((row * down + dy) * from[2] + x * across) * from[3] + channel;
      for (int64_t dx = 0; dx < across; ++dx) sum += gradient[first + dx * from[3]];
    }
    return sum;
  });
}

Status check_resize(const OpShapes& s) {
  constexpr int64_t kMostDenominator = int64_t{1} << 30;
  const auto [vertical, horizontal] =
      resize_axes(s.attributes->as<ResizeAttributes>(), s.inputs[0], s.output);
  const auto reads = [](const ResizeAxis& axis) { return axis.out / axis.in + 2; };
  const int64_t most = vertical.denominator * reads(vertical);
  if (most * horizontal.denominator * reads(horizontal) <= kMostDenominator) return {};
  return invalid_input("sums over so many places are not exact: sizes that have a common factor, "
                       "such as a half, keep them small");
}

Result<Shape> infer_resize(const Attributes& given, std::span<const Shape> inputs) {
  const auto& a = given.as<ResizeAttributes>();
  if (inputs.size() != 1 || !is_of_images(inputs[0])) return wants_image();
  if (is_sequence(inputs[0])) {
    if (a.height > 0) return invalid_input("a sequence [T, C] has no height: width is of T");
    return Shape{a.width, inputs[0].last()};
  }
  if (a.height < 1) return invalid_input("wants a height, too");
  return like_input(Shape{a.height, a.width, inputs[0].last()}, inputs[0]);
}

// 1 / denominator as multiplier * 2^exponent: exact for a power of two, else of `bits` bits.
struct Quotient {
  int64_t multiplier = 1;
  int exponent = 0;

  Quotient(int64_t denominator, int bits) {
    if ((denominator & (denominator - 1)) == 0) {
      exponent = 1 - bit_length(magnitude(denominator));
      return;
    }
    const Real real = Real(1) / Real(denominator);
    const int shift = fixed_point_shift(real, bits);
    multiplier = to_fixed_point(real, shift, mantissa_limit(bits + 1));
    exponent = -shift;
  }
};

// Bits of a multiplier with which sums of mantissas of `bits` bits times `most` stay below 2^61.
int multiplier_bits(int bits, int64_t most) {
  return std::min(31, 61 - bits - bit_length(magnitude(most)));
}

void resize_forward(const OpContext& c) {
  const Tensor& in = c.inputs[0];
  const Shape from = as_images(in.shape), to = as_images(c.output().shape);
  const ResizeAxes axes =
      resize_axes(c.attributes<ResizeAttributes>(), in.shape, c.output().shape);
  const ResizeAxis &vertical = axes.vertical, &horizontal = axes.horizontal;
  const int64_t denominator = vertical.denominator * horizontal.denominator;
  const Quotient quotient(denominator, multiplier_bits(in.bits, denominator));
  const Mantissas q(in);
  write_wide(c, *in.exponent + quotient.exponent, [&](int64_t i) {
    const int64_t channel = i % to[3], x = i / to[3] % to[2], y = i / to[3] / to[2] % to[1];
    const int64_t image = i / to[3] / to[2] / to[1] * from[1];
    const ResizeTap across = horizontal.tap(x), down = vertical.tap(y);
    const auto row = [&](int64_t at) {
      const int64_t first = (image + at) * from[2];
      return across.first_weight * q[(first + across.first) * from[3] + channel] +
             across.second_weight * q[(first + across.second) * from[3] + channel];
    };
    return (down.first_weight * row(down.first) + down.second_weight * row(down.second)) *
           quotient.multiplier;
  });
}

void resize_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Shape to = as_images(grad_input.shape), from = as_images(c.grad_output().shape);
  const ResizeAxes axes =
      resize_axes(c.attributes<ResizeAttributes>(), grad_input.shape, c.grad_output().shape);
  const ResizeAxis &vertical = axes.vertical, &horizontal = axes.horizontal;
  const auto reads = [](const ResizeAxis& axis) {
    return axis.denominator * (axis.out / axis.in + 2);
  };
  const Quotient quotient(
      vertical.denominator * horizontal.denominator,
      multiplier_bits(c.grad_output().bits, reads(vertical) * reads(horizontal)));
  const Mantissas gradient(c.grad_output());
  write_wide_gradient(c, grad_input, *c.grad_output().exponent + quotient.exponent,
                      [&](int64_t i) {
                        const int64_t channel = i % to[3], x = i / to[3] % to[2];
                        const int64_t y = i / to[3] / to[2] % to[1];
                        const int64_t image = i / to[3] / to[2] / to[1] * from[1];
                        const int64_t first = horizontal.begin(x), last = horizontal.end(x);
                        int64_t sum = 0;
                        for (int64_t down = vertical.begin(y); down < vertical.end(y); ++down) {
                          int64_t row = 0;
                          for (int64_t across = first; across < last; ++across) {
                            row += horizontal.weight(across, x) *
                                   gradient[((image + down) * from[2] + across) * from[3] +
                                            channel];
                          }
                          sum += vertical.weight(down, y) * row;
                        }
                        return sum * quotient.multiplier;
                      });
}

void emit_resize_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.grad_outputs_of_layer(), e.grad_inputs()});
}

}  // namespace

const Op kUpsample = {
    .name = "upsample",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .attributes = schema<UpsampleAttributes>(kUpsampleSchema),
    .infer_shape = infer_upsample,
    .integer = {.forward = {.run = upsample_forward}, .grad_input = {.run = upsample_backward}},
    .emit_gradient = emit_resize_gradient,
    .fp32 = &fp32::kUpsample};

const Op kBilinearResize = {
    .name = "bilinear_resize",
    .traits = {.sign = Sign::kKept},
    .attributes = schema<ResizeAttributes>(kResizeSchema),
    .infer_shape = infer_resize,
    .integer = {.check = check_resize,
                .forward = {.run = resize_forward},
                .grad_input = {.run = resize_backward}},
    .emit_gradient = emit_resize_gradient,
    .fp32 = &fp32::kBilinearResize};

}  // namespace mantissa::ops
