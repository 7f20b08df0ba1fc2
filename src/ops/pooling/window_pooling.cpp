// Pooling by windows that may overlap, be padded and reach beyond the image: maximum and average.
//
// Attributes: window (1 to 11), stride (the window's), padding (0; at most half the window), the
// same for the width (window_width, stride_width, padding_width: as for the height), ceil (0; 1: a
// last window that begins inside the image may end beyond it), over (the images' height and width,
// or the depth of a volume) and, of the average, count_padding (1: padded cells count as zeros; 0:
// the average is over the image's cells).
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/pooling/pool_axes.h"
#include "ops/pooling/window_means.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

using kernels::PoolAxis;
using kernels::PoolRange;
using kernels::PoolShape;

constexpr AttributeSpec kMaximumSchema[] = {
    kPoolWindow,      kPoolStride,
    kPoolPadding,     flag<&PoolAttributes::ceil>("ceil", false),
    kPoolWindowWidth, kPoolStrideWidth,
    kPoolPaddingWidth, kPoolOver};
constexpr AttributeSpec kAverageSchema[] = {
    kPoolWindow,
    kPoolStride,
    kPoolPadding,
    flag<&PoolAttributes::ceil>("ceil", false),
    flag<&PoolAttributes::count_padding>("count_padding", true),
    kPoolWindowWidth,
    kPoolStrideWidth,
    kPoolPaddingWidth,
    kPoolOver};

// How many windows lie along a dimension of the image.
Result<int64_t> windows(const PoolAxis& axis, const Shape& image, int dimension, bool ceil) {
  if (2 * axis.padding > axis.window) {
    return invalid_input("wants padding of at most half the window, not " +
                         std::to_string(axis.padding) + " for a window of " +
                         std::to_string(axis.window));
  }
  const int64_t size = image[dimension], room = size + 2 * axis.padding - axis.window;
  if (room < 0) {
    return invalid_input("a window of " + std::to_string(axis.window) + " with padding " +
                         std::to_string(axis.padding) + " does not fit an image of " +
                         to_string(image));
  }
  const int64_t floor = room / axis.stride + 1;
  const bool another = ceil && room % axis.stride != 0 && floor * axis.stride < size + axis.padding;
  return floor + (another ? 1 : 0);
}

// Windows over the depth, of a volume [D, H, W, C].
Result<Shape> infer_over_depth(const PoolAttributes& attributes, const Shape& volume) {
  if (!is_volume(volume)) return invalid_input("wants a [D, H, W, C] input to pool over the depth");
  if (attributes.window_width > 0 || attributes.stride_width > 0 || attributes.padding_width >= 0) {
    return invalid_input("pools over the depth: window, stride and padding are of it");
  }
  const kernels::PoolAxis axis = pool_axes(attributes, false).vertical;
  MANTISSA_ASSIGN(const int64_t depth, windows(axis, volume, 0, attributes.ceil));
  return Shape{depth, volume[1], volume[2], volume[3]};
}

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<PoolAttributes>();
  if (inputs.size() != 1 || !is_of_images(inputs[0])) {
    return invalid_input("wants one [H, W, C], [T, C] or [D, H, W, C] input");
  }
  if (attributes.over == PooledAxes::kDepth) return infer_over_depth(attributes, inputs[0]);
  const bool of_sequence = is_sequence(inputs[0]);
  if (of_sequence && (attributes.window_width > 0 || attributes.stride_width > 0 ||
                      attributes.padding_width >= 0)) {
    return invalid_input("a sequence [T, C] has no width: window, stride and padding are of T");
  }
  const Shape image = as_image(inputs[0]);
  const PoolAxes axes = pool_axes(attributes, of_sequence);
  const bool ceil = attributes.ceil;
  MANTISSA_ASSIGN(const int64_t height, windows(axes.vertical, image, 0, ceil));
  MANTISSA_ASSIGN(const int64_t width, windows(axes.horizontal, image, 1, ceil));
  return like_input(Shape{height, width, image[2]}, inputs[0]);
}

// How many images the windows lie in.
int64_t images_of(const OpContext& c, const Tensor& tensor) {
  return pooled_images(c.attributes<PoolAttributes>(), tensor.shape)[0];
}

template <typename Function>
kernels::WideStatistics over_images(const OpContext& c, int64_t images, Function&& function) {
  return kernels::parallel_statistics(*c.kernel.pool, images, 1, function);
}

void maximum_forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const PoolShape shape = pool_shape(c.attributes<PoolAttributes>(), input.shape, c.output().shape);
  kernels::parallel_ranges(*c.kernel.pool, images_of(c, input), 1,
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->pooling->max_pool_windows(
                                 shape, value_of(input), value_of(c.output()), nullptr, begin, end);
                           });
  *c.output().exponent = *input.exponent;
}

// Finds the maxima again rather than keeping them: a byte for each output in the workspace.
void maximum_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t images = images_of(c, grad_input);
  const PoolShape shape =
      pool_shape(c.attributes<PoolAttributes>(), grad_input.shape, c.grad_output().shape);
  auto* taps = reinterpret_cast<int8_t*>(c.memory.workspace);
  const auto& kernel = *c.kernel.table->pooling;
  kernels::parallel_ranges(*c.kernel.pool, images, 1, [&](int64_t begin, int64_t end, int64_t) {
    kernel.max_pool_windows(shape, value_of(c.inputs[0]), {}, taps, begin, end);
  });
  const auto write = [&](int shift, const kernels::PassCounts& counts) {
    return over_images(c, images, [&](int64_t begin, int64_t end, int64_t part) {
      return kernel.max_pool_windows_gradient(shape, taps, gradient_of(c.grad_output()), shift,
                                              gradient_of(grad_input), begin, end,
                                              counts.wide_of(part));
    });
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent, write);
}

OpMemory maximum_memory(const OpShapes& s, const PlanningContext&) {
  return {.grad_input = {.workspace_bytes = s.output.count()}};
}

// 1 / cells of each window of an image, as multipliers of at most this many bits, and their
// exponent.
struct Means {
  int64_t* multipliers;
  int exponent;

  Means(const PoolAttributes& attributes, const PoolShape& s, int bits, std::byte* workspace)
      : multipliers(reinterpret_cast<int64_t*>(workspace)) {
    const bool padded = attributes.count_padding;
    const Reciprocals reciprocals(least_cells(s, padded), s.window_cells(), bits);
    exponent = reciprocals.exponent;
    for (int64_t i = 0; i < s.out_height * s.out_width; ++i) {
      multipliers[i] = reciprocals.of[cells_of(s, padded, i / s.out_width, i % s.out_width)];
    }
  }
};

// The wide value of output i.
int64_t wide_average(const PoolShape& s, const Means& means, const Mantissas& in, int64_t i) {
  const int64_t n = i / s.out_image(), window = i % s.out_image() / s.channels;
  const PoolRange rows = s.rows(window / s.out_width), columns = s.columns(window % s.out_width);
  int64_t sum = 0;
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      sum += in[((n * s.in_height + y) * s.in_width + x) * s.channels + i % s.channels];
    }
  }
  return sum * means.multipliers[window];
}

void average_forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const PoolShape shape = pool_shape(c.attributes<PoolAttributes>(), input.shape, c.output().shape);
  const Means means(c.attributes<PoolAttributes>(), shape, kMeanBits, c.memory.workspace);
  const int wide_exponent = *input.exponent + means.exponent;
  const Mantissas in(input);
  const auto wide = [&](int64_t i) { return wide_average(shape, means, in, i); };
  if (!is_bytes(input) || !is_bytes(c.output())) return write_wide(c, wide_exponent, wide);
  calibrate(c, wide_exponent, wide);
  kernels::AveragePool pool{.shape = shape,
                            .in = input.as<int8_t>(),
                            .multipliers = means.multipliers,
                            .bits = c.output().bits};
  narrow_value(
      c, wide_exponent,
      [&](int8_t* out, int shift, const kernels::PassCounts& counts) {
        pool.out = out;
        pool.shift = shift;
        return over_images(c, images_of(c, input), [&](int64_t begin, int64_t end, int64_t part) {
          kernels::AveragePool images = pool;
          images.counts = counts.wide_of(part);
          return c.kernel.table->pooling->average_pool(images, begin, end);
        });
      },
      64);
}

// num / den (> 0), to nearest even.
int64_t divide_rne(int64_t num, int64_t den) {
  const int64_t quotient = num >= 0 ? num / den : -((-num + den - 1) / den);  // rounded down
  const int64_t twice = 2 * (num - quotient * den);
  return quotient + (twice > den || (twice == den && quotient % 2 != 0) ? 1 : 0);
}

// Results for all sums of up to this many cells: the sums of n cells begin at place(n).
struct MeanTables {
  int8_t* tables;
  static int64_t place(int64_t cells) { return 127 * cells * (cells - 1) + cells - 1; }
  static int64_t bytes(int64_t most_cells) { return place(most_cells + 1); }

  void fill(int64_t cells, int shift, int64_t limit) const {
    constexpr int kMostShift = 32;  // from there on everything is clipped, or rounded away
    const int64_t up = int64_t{1} << std::clamp(-shift, 0, kMostShift);
    const int64_t down = int64_t{1} << std::clamp(shift, 0, kMostShift);
    for (int64_t sum = -127 * cells; sum <= 127 * cells; ++sum) {
      at(cells)[sum] = static_cast<int8_t>(saturate(divide_rne(sum * up, cells * down), limit));
    }
  }
  // For n cells, by their sum.
  int8_t* at(int64_t cells) const { return tables + place(cells) + 127 * cells; }
};

// The means of one window, of up to kBlock channels at a time.
void exact_means(const PoolShape& s, const int8_t* in, int64_t wy, int64_t wx, const int8_t* table,
                 int8_t* out) {
  constexpr int64_t kBlock = 256;
  const PoolRange rows = s.rows(wy), columns = s.columns(wx);
  for (int64_t first = 0; first < s.channels; first += kBlock) {
    const int64_t count = std::min(kBlock, s.channels - first);
    std::array<int16_t, kBlock> sums{};
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        const int8_t* cell = in + (y * s.in_width + x) * s.channels + first;
        for (int64_t c = 0; c < count; ++c) sums[c] = static_cast<int16_t>(sums[c] + cell[c]);
      }
    }
    for (int64_t c = 0; c < count; ++c) out[first + c] = table[sums[c]];
  }
}

// The means of a frozen network: sum * 2^(exponent of input - exponent of output) / cells, rounded
// once, to nearest even.
void exact_average(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const PoolShape s = pool_shape(c.attributes<PoolAttributes>(), input.shape, c.output().shape);
  const bool padded = c.attributes<PoolAttributes>().count_padding;
  const MeanTables tables{reinterpret_cast<int8_t*>(c.memory.workspace)};
  std::array<bool, kernels::kLargestPoolWindow * kernels::kLargestPoolWindow + 1> filled{};
  for (int64_t w = 0; w < s.out_height * s.out_width; ++w) {
    const int64_t cells = cells_of(s, padded, w / s.out_width, w % s.out_width);
    if (std::exchange(filled[cells], true)) continue;
    tables.fill(cells, *c.output().exponent - *input.exponent, mantissa_limit(c.output().bits));
  }
  kernels::parallel_ranges(
      *c.kernel.pool, images_of(c, input), 1, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin * s.out_height * s.out_width; i < end * s.out_height * s.out_width;
             ++i) {
          const int64_t image = i / (s.out_height * s.out_width);
          const int64_t wy = i / s.out_width % s.out_height, wx = i % s.out_width;
          exact_means(s, input.as<int8_t>() + image * s.in_image(), wy, wx,
                      tables.at(cells_of(s, padded, wy, wx)),
                      c.output().as<int8_t>() + i * s.channels);
        }
      });
}

OpMemory exact_average_memory(const OpShapes& s, const PlanningContext&) {
  const PoolShape shape = pool_shape(s.attributes->as<PoolAttributes>(), s.inputs[0], s.output);
  return {.forward = {.workspace_bytes = MeanTables::bytes(shape.window_cells())}};
}

void average_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const PoolShape shape =
      pool_shape(c.attributes<PoolAttributes>(), grad_input.shape, c.grad_output().shape);
  const int bits = gradient_multiplier_bits(shape, c.grad_output().bits);
  const Means means(c.attributes<PoolAttributes>(), shape, bits, c.memory.workspace);
  const auto write = [&](int shift, const kernels::PassCounts& counts) {
    return over_images(c, images_of(c, grad_input), [&](int64_t begin, int64_t end, int64_t part) {
      return c.kernel.table->pooling->average_pool_gradient(
          shape, means.multipliers, gradient_of(c.grad_output()), shift, gradient_of(grad_input),
          begin, end, counts.wide_of(part));
    });
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent + means.exponent, write);
}

OpMemory average_memory(const OpShapes& s, const PlanningContext&) {
  const Shape images = pooled_images(s.attributes->as<PoolAttributes>(), s.output);
  const int64_t bytes = images[1] * images[2] * int64_t{sizeof(int64_t)};
  return {.forward = {.workspace_bytes = bytes}, .grad_input = {.workspace_bytes = bytes}};
}

}  // namespace

const Op kOverlappingMaxPool = {.name = "overlapping_max_pool",
                                .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
                                .attributes = schema<PoolAttributes>(kMaximumSchema),
                                .infer_shape = infer,
                                .integer = {.memory = maximum_memory,
                                            .forward = {.run = maximum_forward},
                                            .grad_input = {.run = maximum_backward},
                                            .kernel = kernel_name<&kernels::KernelTable::pooling>},
                                .emit_gradient = emit_gradient_by_inputs,
                                .fp32 = &fp32::kMaxPool};

const Op kAveragePool = {.name = "average_pool",
                         .traits = {.sign = Sign::kKept},
                         .attributes = schema<PoolAttributes>(kAverageSchema),
                         .infer_shape = infer,
                         .integer = {.memory = average_memory,
                                     .forward = {.run = average_forward},
                                     .grad_input = {.run = average_backward},
                                     .kernel = kernel_name<&kernels::KernelTable::pooling>},
                         .emit_gradient = emit_rounded_gradient,
                         .fp32 = &fp32::kAveragePool};

const Op kExactAveragePool = {
    .name = "exact_average_pool",
    .traits = {.sign = Sign::kKept},
    .attributes = schema<PoolAttributes>(kAverageSchema),
    .infer_shape = infer,
    .integer = {.memory = exact_average_memory, .forward = {.run = exact_average}}};

}  // namespace mantissa::ops
