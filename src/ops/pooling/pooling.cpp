// Maximum pooling of images (windows do not overlap) and the average over an example's positions.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "numerics/float_product.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/pooling/pool_axes.h"
#include "ops/pooling/reciprocal.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kMaxPoolSchema[] = {kPoolWindow,      kPoolStride,      kPoolPadding,
                                            kPoolWindowWidth, kPoolStrideWidth, kPoolPaddingWidth};

// The windows of all images.
struct TiledImages : kernels::MaxPoolShape {
  int64_t images;
  TiledImages(const PoolAttributes& attributes, const Shape& input)
      : TiledImages(attributes.window, as_images(input)) {}

 private:
  TiledImages(int64_t size, const Shape& in)
      : kernels::MaxPoolShape{in[1], in[2], in[3], size}, images(in[0]) {}
};

Result<Shape> infer_max_pool(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<PoolAttributes>();
  const int64_t window = attributes.window;
  if (inputs.size() == 1 && is_sequence(inputs[0])) {
    return invalid_input("wants one [H, W, C] input; overlapping_max_pool takes [T, C], too");
  }
  if (inputs.size() != 1 || !is_of_images(inputs[0])) {
    return invalid_input("wants one [H, W, C] or [D, H, W, C] input");
  }
  const Shape image = as_image(inputs[0]);
  const auto [vertical, horizontal] = pool_axes(attributes, false);
  for (const kernels::PoolAxis& axis : {vertical, horizontal}) {
    if (axis.window == window && axis.stride == window && axis.padding == 0) continue;
    return invalid_input("wants stride = window and no padding; overlapping_max_pool takes others");
  }
  if (image[0] < window || image[1] < window) {
    return invalid_input("a window of " + std::to_string(window) + " does not fit an image of " +
                         to_string(inputs[0]));
  }
  return like_input(Shape{image[0] / window, image[1] / window, image[2]}, inputs[0]);
}

// The same windows as overlapping pools have. Their kernels take every width.
kernels::PoolShape window_shape(const kernels::MaxPoolShape& s) {
  const kernels::PoolAxis axis = {s.window, s.window, 0};
  return {s.in_height, s.in_width, s.channels, s.out_height(), s.out_width(), axis, axis};
}

void wide_max_pool(const OpContext& c, kernels::MantissaSpan output, int8_t* taps) {
  const Tensor& input = c.inputs[0];
  const TiledImages tiles(c.attributes<PoolAttributes>(), input.shape);
  const kernels::PoolShape shape = window_shape(tiles);
  kernels::parallel_ranges(
      *c.kernel.pool, tiles.images, 1, [&](int64_t begin, int64_t end, int64_t) {
        c.kernel.table->pooling->max_pool_windows(shape, value_of(input), output, taps, begin, end);
      });
}

// Windows that do not overlap sum nothing: the shift of 0 rounds nothing either.
void wide_max_pool_gradient(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const TiledImages tiles(c.attributes<PoolAttributes>(), grad_input.shape);
  const kernels::PoolShape shape = window_shape(tiles);
  auto* taps = reinterpret_cast<int8_t*>(c.memory.workspace);
  wide_max_pool(c, {}, taps);
  kernels::parallel_ranges(*c.kernel.pool, tiles.images, 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->pooling->max_pool_windows_gradient(
                                 shape, taps, gradient_of(c.grad_output()), 0,
                                 gradient_of(grad_input), begin, end, nullptr);
                           });
  *grad_input.exponent = *c.grad_output().exponent;
}

OpMemory max_pool_memory(const OpShapes& s, const PlanningContext&) {
  if (s.input_bits(0) <= 8) return {};
  return {.grad_input = {.workspace_bytes = s.output.count()}};  // taps
}

void max_pool_forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  if (!is_bytes(input)) {
    wide_max_pool(c, value_of(c.output()), nullptr);
    *c.output().exponent = *input.exponent;
    return;
  }
  const TiledImages shape(c.attributes<PoolAttributes>(), input.shape);
  kernels::parallel_ranges(*c.kernel.pool, shape.images, 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->pooling->max_pool(shape, input.as<int8_t>(),
                                                               c.output().as<int8_t>(), begin, end);
                           });
  *c.output().exponent = *input.exponent;
}

void max_pool_backward(const OpContext& c) {
  if (!is_bytes(c.inputs[0])) return wide_max_pool_gradient(c);
  const Tensor& grad_input = c.grad_inputs[0];
  const TiledImages shape(c.attributes<PoolAttributes>(), grad_input.shape);
  kernels::parallel_ranges(
      *c.kernel.pool, shape.images, 1, [&](int64_t begin, int64_t end, int64_t) {
        c.kernel.table->pooling->max_pool_gradient(shape, c.inputs[0].as<int8_t>(),
                                                   gradient_of(c.grad_output()),
                                                   gradient_of(grad_input), begin, end);
      });
  *grad_input.exponent = *c.grad_output().exponent;
}

Result<Shape> infer_average(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() == 1 && is_of_images(inputs[0])) return Shape{inputs[0].last()};
  return invalid_input("wants one [H, W, C], [T, C] or [D, H, W, C] input");
}

void wide_average(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Mantissas in(input);
  const int64_t channels = input.shape.last(), pixels = positions_of_example(input.shape);
  const Reciprocal mean = reciprocal(pixels);
  const auto wide = [&](int64_t i) {
    const int64_t first = i / channels * pixels * channels + i % channels;
    int64_t sum = 0;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) sum += in[first + pixel * channels];
    return sum * mean.multiplier;
  };
  const int exponent = *input.exponent + mean.exponent;
  c.mode.half_up ? write_half_up(c, exponent, wide) : write_wide(c, exponent, wide);
}

void average_forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  if (!is_bytes(input) || !is_bytes(c.output()) || c.mode.half_up) return wide_average(c);
  const int64_t images = input.shape[0], channels = input.shape.last();
  const int64_t pixels = positions_of_example(input.shape);
  auto* sums = reinterpret_cast<int32_t*>(c.memory.workspace);
  kernels::parallel_ranges(*c.kernel.pool, images, 1, [&](int64_t begin, int64_t end, int64_t) {
    c.kernel.table->pooling->image_sums(input.as<int8_t>(), pixels, channels, sums, begin, end);
  });
  const Reciprocal mean = reciprocal(pixels);
  const int wide_exponent = *input.exponent + mean.exponent;
  uint64_t maximum = 0;
  const auto wide = [&](int64_t i) { return sums[i] * mean.multiplier; };
  for (int64_t i = 0; i < images * channels; ++i) maximum = std::max(maximum, magnitude(wide(i)));
  calibrate(c, wide_exponent, wide);
  narrow_by_maximum(c, maximum, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    auto* const out = c.output().as<int8_t>();
    const int64_t limit = mantissa_limit(c.output().bits);
    int64_t saturated = 0;
    for (int64_t i = 0; i < images * channels; ++i) {
      const int64_t rounded = rescale_rne(wide(i), shift);
      out[i] = static_cast<int8_t>(saturate(rounded, limit));
      saturated += out[i] != rounded;
    }
    count_written(counts.wide, c.output(), 0, images * channels, wide);
    return saturated;
  });
}

// The mean of a frozen network, rounded as ONNX Runtime does:
// rne(float32(sum) * float32(2^(exponent of input - exponent of output) / pixels)).
void rescaled_average(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const int64_t images = input.shape[0], channels = input.shape.last();
  const int64_t pixels = positions_of_example(input.shape);
  auto* sums = reinterpret_cast<int32_t*>(c.memory.workspace);
  const Reciprocal mean = reciprocal(pixels, kFloatBits);
  const FloatParts factor{mean.multiplier, mean.exponent + *input.exponent - *c.output().exponent};
  const int64_t limit = mantissa_limit(c.output().bits);
  auto* const out = c.output().as<int8_t>();
  *c.output().saturated +=
      kernels::parallel_statistics(*c.kernel.pool, images, 1, [&](int64_t begin, int64_t end) {
        c.kernel.table->pooling->image_sums(input.as<int8_t>(), pixels, channels, sums, begin, end);
        kernels::WideStatistics found;
        for (int64_t i = begin * channels; i < end * channels; ++i) {
          const int64_t wide = times_float(sums[i], factor), narrow = saturate(wide, limit);
          out[i] = static_cast<int8_t>(narrow);
          found.saturated += narrow != wide;
        }
        return found;
      }).saturated;
}

// Gradients of means to gradients of pixels, which are alike within an image and channel.
template <typename From, typename To>
kernels::WideStatistics narrow_means(const From* grad_output, int64_t multiplier, int shift,
                                     int64_t pixels, int64_t count, kernels::MantissaSpan out,
                                     kernels::WideCounts* counts, To) {
  kernels::WideStatistics found;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t wide = grad_output[i] * multiplier;
    const int64_t rounded = shift_right_rne(wide, shift);
    const int64_t narrow = saturate(rounded, mantissa_limit(out.bits));
    out.as<To>()[i] = static_cast<To>(narrow);
    found += {magnitude(wide), narrow != rounded ? pixels : 0};
    if (counts != nullptr) counts->add(magnitude(wide), pixels);
  }
  return found;
}

void average_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t images = grad_input.shape[0], channels = grad_input.shape.last();
  const int64_t pixels = positions_of_example(grad_input.shape);
  // Products stay below 2^61.
  const Reciprocal mean = reciprocal(pixels, c.grad_output().bits <= 16 ? 31 : 30);
  const kernels::MantissaSpan narrow{c.memory.workspace, grad_input.bits};
  const auto write = [&](int shift, const kernels::PassCounts& counts) {
    const kernels::WideStatistics found =
        kernels::with_wide_gradient_type(c.grad_output().bits, [&](auto from) {
          using From = decltype(from);
          return kernels::with_gradient_type_from<From>(narrow.bits, [&](auto to) {
            return narrow_means<From>(c.grad_output().as<From>(), mean.multiplier, shift, pixels,
                                      images * channels, narrow, counts.wide, to);
          });
        });
    kernels::parallel_ranges(*c.kernel.pool, images, 1, [&](int64_t begin, int64_t end, int64_t) {
      c.kernel.table->pooling->broadcast(narrow, pixels, channels, gradient_of(grad_input), begin,
                                         end);
    });
    return found;
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent + mean.exponent, write);
}

OpMemory average_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t bytes = s.output.count() * int64_t{sizeof(int32_t)};
  return {.forward = {.workspace_bytes = bytes}, .grad_input = {.workspace_bytes = bytes}};
}

Status check_average(const OpShapes& s) {
  // The sum of this many bytes fits int32; the sum of wider values, times the multiplier's 31 bits,
  // fits int64.
  const int bits = s.input_bits(0);
  const int most = 24 - std::max(0, bits - 8);
  if (positions_of_example(s.inputs[0]) <= int64_t{1} << most) return {};
  return invalid_input("averages at most 2^" + std::to_string(most) + " pixels of " +
                       std::to_string(bits) + " bits exactly");
}

}  // namespace

const Op kMaxPool = {.name = "max_pool",
                     .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
                     .attributes = schema<PoolAttributes>(kMaxPoolSchema),
                     .infer_shape = infer_max_pool,
                     .integer = {.memory = max_pool_memory,
                                 .forward = {.run = max_pool_forward},
                                 .grad_input = {.run = max_pool_backward},
                                 .kernel = kernel_name<&kernels::KernelTable::pooling>},
                     .emit_gradient = emit_passed_gradient_by_inputs,
                     .fp32 = &fp32::kMaxPool};

const Op kGlobalAveragePool = {.name = "global_average_pool",
                               .traits = {.sign = Sign::kKept},
                               .infer_shape = infer_average,
                               .integer = {.memory = average_memory,
                                           .check = check_average,
                                           .forward = {.run = average_forward},
                                           .grad_input = {.run = average_backward},
                                           .kernel = kernel_name<&kernels::KernelTable::pooling>},
                               .emit_gradient = emit_rounded_gradient,
                               .fp32 = &fp32::kGlobalAveragePool};

const Op kRescaledGlobalAverage = {
    .name = "rescaled_global_average",
    .traits = {.sign = Sign::kKept},
    .infer_shape = infer_average,
    .integer = {.memory = average_memory,
                .check = check_average,
                .forward = {.run = rescaled_average},
                .kernel = kernel_name<&kernels::KernelTable::pooling>}};

}  // namespace mantissa::ops
