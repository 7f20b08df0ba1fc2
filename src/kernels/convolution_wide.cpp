#include "kernels/convolution_wide.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.h"
#include "kernels/convolution/choice.h"
#include "kernels/depthwise_wide.h"
#include "kernels/exact_sums.h"
#include "kernels/parallel_ranges.h"

namespace mantissa::kernels {
namespace {

// More than 8 bits are x = 256 * high + low + 128, both int8: what the lower byte lacks of a signed
// one is put back with sums, of the other operand and of this one (start_sums).
constexpr int planes_of(int bits) { return bits <= 8 ? 1 : 2; }
constexpr int kOffset = 128;

// Bytes of scratch that one plane takes.
size_t plane_bytes(int bits, int64_t count) {
  return planes_of(bits) == 1 ? 0 : aligned_bytes(count);
}

size_t planes_bytes(int bits, int64_t count) {
  return static_cast<size_t>(planes_of(bits)) * plane_bytes(bits, count);
}

// The shape of the products of planes. A plane's zero is not 0, so the border of zeros around the
// images is a part of it.
ConvolutionShape plane_shape(ConvolutionShape s, int input_bits) {
  if (planes_of(input_bits) == 1) return s;
  s.in_height += 2 * s.padding;
  s.in_width += 2 * s.padding;
  s.padding = 0;
  return s;
}

// One plane of weights, written to `scratch` unless they are of one.
const int8_t* weights_plane(const KernelTable& table, ThreadPool& pool, ConstMantissaSpan weights,
                            int64_t count, int plane, int8_t* scratch) {
  if (planes_of(weights.bits) == 1) return weights.as<int8_t>();
  parallel_ranges(pool, count, kElementsPerThread, [&](int64_t begin, int64_t end, int64_t) {
    table.wide->plane({weights.as<int16_t>(), plane, scratch}, begin, end);
  });
  return scratch;
}

// One plane of the input as plane_shape() has it, written to `scratch` unless it is of one.
const int8_t* input_plane(const KernelTable& table, ThreadPool& pool, const ConvolutionShape& s,
                          ConstMantissaSpan input, int plane, int8_t* scratch) {
  if (planes_of(input.bits) == 1) return input.as<int8_t>();
  const ConvolutionShape to = plane_shape(s, input.bits);
  const int64_t from_row = s.in_width * s.in_channels, to_row = to.in_width * s.in_channels;
  const int64_t left = s.padding * s.in_channels;
  const auto zero = static_cast<int8_t>(plane == 0 ? -kOffset : 0);
  parallel_ranges(pool, s.batch * to.in_height, std::max<int64_t>(1, kElementsPerThread / to_row),
                  [&](int64_t begin, int64_t end, int64_t) {
                    for (int64_t row = begin; row < end; ++row) {
                      const int64_t image = row / to.in_height, y = row % to.in_height - s.padding;
                      int8_t* const out = scratch + row * to_row;
                      if (y < 0 || y >= s.in_height) {
                        std::fill_n(out, to_row, zero);
                        continue;
                      }
                      std::fill_n(out, left, zero);
                      const int16_t* const in =
                          input.as<int16_t>() + (image * s.in_height + y) * from_row;
                      table.wide->plane({in, plane, out + left}, 0, from_row);
                      std::fill_n(out + left + from_row, left, zero);
                    }
                  });
  return scratch;
}

bool windows_are_pixels(const ConvolutionShape& s) {
  return s.kernel_height * s.kernel_width == 1 && s.stride == 1 && s.padding == 0;
}

// The sums of what an output pixel's window covers of the images, by group: [N, OH, OW, G]. They
// stay below 2^31 by kMaximumForwardDepth.
struct WindowSums {
  size_t pixels = 0, windows = 0;  // bytes

  WindowSums(const ConvolutionShape& s, int weight_bits) {
    if (planes_of(weight_bits) == 1) return;
    pixels = aligned_bytes(s.input_count() / s.group_in_channels() * 4);
    if (windows_are_pixels(s)) return;
    windows = aligned_bytes(s.output_count() / s.group_out_channels() * 4);
  }
  size_t bytes() const { return pixels + windows; }

  const int32_t* find(const KernelTable& table, ThreadPool& pool, const ConvolutionShape& s,
                      ConstMantissaSpan input, std::byte* scratch) const {
    auto* of_pixels = reinterpret_cast<int32_t*>(scratch);
    const GroupSums sums{input, s.groups, s.group_in_channels(), of_pixels};
    parallel_ranges(
        pool, s.batch * s.in_height * s.in_width,
        std::max<int64_t>(1, kElementsPerThread / s.in_channels),
        [&](int64_t begin, int64_t end, int64_t) { table.wide->group_sums(sums, begin, end); });
    if (windows_are_pixels(s)) return of_pixels;
    auto* of_windows = reinterpret_cast<int32_t*>(scratch + pixels);
    const int64_t row_sums = s.out_width * s.groups;
    parallel_ranges(pool, s.batch * s.out_height,
                    std::max<int64_t>(1, kElementsPerThread / row_sums),
                    [&](int64_t begin, int64_t end, int64_t) {
                      for (int64_t row = begin; row < end; ++row) {
                        const int64_t image = row / s.out_height * s.in_height * s.in_width;
                        add_up_row(table, s, of_pixels + image * s.groups, row % s.out_height,
                                   of_windows + row * row_sums);
                      }
                    });
    return of_windows;
  }

 private:
  // A row of windows in an image.
  static void add_up_row(const KernelTable& table, const ConvolutionShape& s, const int32_t* image,
                         int64_t out_y, int32_t* row) {
    std::fill_n(row, s.out_width * s.groups, 0);
    for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
      const int64_t y = out_y * s.stride + ky * s.dilation - s.padding;
      if (y < 0 || y >= s.in_height) continue;
      for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
        // x = out_x * stride + left, inside the image.
        const int64_t left = kx * s.dilation - s.padding;
        const int64_t first = left >= 0 ? 0 : divide_up(-left, s.stride);
        const int64_t end = std::min(s.out_width, divide_up(s.in_width - left, s.stride));
        const int64_t run = s.stride == 1 ? end - first : 1;
        for (int64_t out_x = first; out_x < end; out_x += run) {
          const int64_t pixel = y * s.in_width + out_x * s.stride + left;
          table.wide->add(image + pixel * s.groups, row + out_x * s.groups, 0, run * s.groups);
        }
      }
    }
  }
};

// What every pixel's sums begin with: the bias and what the planes of the input lack, by channel.
void find_constants(const WideForward& args, int64_t* constants) {
  const ConvolutionShape& s = args.shape;
  const int64_t depth = s.weights_count() / s.out_channels;
  const bool wide_input = planes_of(args.input.bits) > 1;
  const bool wide_weights = planes_of(args.weights.bits) > 1;
  with_value_type(args.weights.bits, [&](auto type) {
    const auto* weights = args.weights.as<decltype(type)>();
    for (int64_t o = 0; o < s.out_channels; ++o) {
      int64_t constant = args.bias == nullptr ? 0 : args.bias[o];
      if (wide_input) {
        const auto* of_channel = weights + o * depth;
        constant += kOffset * std::accumulate(of_channel, of_channel + depth, int64_t{0});
      }
      if (wide_input && wide_weights) constant -= kOffset * kOffset * depth;
      constants[o] = constant;
    }
  });
}

// sums = constants + what the planes of weights lack: kOffset times `windows`, if not null.
void start_sums(const KernelTable& table, ThreadPool& pool, const WideForward& args,
                const int64_t* constants, const int32_t* windows) {
  const ConvolutionShape& s = args.shape;
  const FirstSums sums{constants, windows, kOffset, s.groups, s.group_out_channels(), args.sums};
  parallel_ranges(
      pool, s.output_count() / s.out_channels,
      std::max<int64_t>(1, kElementsPerThread / s.out_channels),
      [&](int64_t begin, int64_t end, int64_t) { table.wide->first_sums(sums, begin, end); });
}

// sums += part * 2^shift.
void add_shifted(const KernelTable& table, ThreadPool& pool, const GradientSums& part, int shift,
                 int64_t count, int64_t* sums) {
  parallel_ranges(pool, count, kElementsPerThread, [&](int64_t begin, int64_t end, int64_t) {
    table.wide->add_shifted(part, shift, sums, begin, end);
  });
}

// grad_input as the forward pass of a convolution with stride 1 over the gradient, its pixels
// `stride` apart and a border of zeros around them: turned by 180 degrees, the weights meet each
// pixel of the input with those of the output that read it. Of some images.
ConvolutionShape backward_shape(const ConvolutionShape& s, int64_t images) {
  return {.batch = images,
          .in_height = s.in_height + (s.kernel_height - 1) * s.dilation,
          .in_width = s.in_width + (s.kernel_width - 1) * s.dilation,
          .in_channels = s.out_channels,
          .out_height = s.in_height,
          .out_width = s.in_width,
          .out_channels = s.in_channels,
          .kernel_height = s.kernel_height,
          .kernel_width = s.kernel_width,
          .groups = s.groups,
          .dilation = s.dilation};
}

// The gradient of one image [OH, OW, O] in the shape that `to` has as an input.
template <typename T>
void spread_gradient(const ConvolutionShape& s, const ConvolutionShape& to, const T* gradient,
                     T* spread) {
  std::fill_n(spread, to.input_count() / to.batch, T{0});
  const int64_t top = (s.kernel_height - 1) * s.dilation - s.padding;
  const int64_t left = (s.kernel_width - 1) * s.dilation - s.padding;
  for (int64_t y = 0; y < s.out_height; ++y) {
    const int64_t to_y = top + y * s.stride;
    if (to_y < 0 || to_y >= to.in_height) continue;
    for (int64_t x = 0; x < s.out_width; ++x) {
      const int64_t to_x = left + x * s.stride;
      if (to_x < 0 || to_x >= to.in_width) continue;
      std::copy_n(gradient + (y * s.out_width + x) * s.out_channels, s.out_channels,
                  spread + (to_y * to.in_width + to_x) * s.out_channels);
    }
  }
}

// Weights [O, KH, KW, C / G] turned by 180 degrees, their channels swapped: [C, KH, KW, O / G].
template <typename T>
void turn_weights(const ConvolutionShape& s, const T* weights, T* turned) {
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t in = s.group_in_channels(), out = s.group_out_channels();
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const T* from = weights + (o * taps + tap) * in;
      T* to = turned + (o / out * in * taps + taps - 1 - tap) * out + o % out;
      for (int64_t c = 0; c < in; ++c) to[c * taps * out] = from[c];
    }
  }
}

// Parts of grad_input's scratch; what the forward pass needs follows.
struct BackwardScratch {
  size_t gradient, weights, sums;

  BackwardScratch(const ConvolutionShape& to, int gradient_bits, int weight_bits)
      : gradient(aligned_bytes(to.input_count() * gradient_bytes(gradient_bits))),
        weights(aligned_bytes(to.weights_count() * gradient_bytes(weight_bits))),
        sums(aligned_bytes(to.output_count() * 8)) {}
  size_t bytes() const { return gradient + weights + sums; }
};

int64_t input_images_per_chunk(const ConvolutionShape& s) {
  return wide_images_per_chunk(backward_shape(s, s.batch));
}

// What depthwise_grad_input keeps; what depthwise_wide needs follows.
size_t depthwise_sums_bytes(const ConvolutionShape& s) {
  return aligned_bytes(input_images_per_chunk(s) * (s.input_count() / s.batch) * 8);
}

// The gradient of some images from exact sums, rounded and clipped.
WideStatistics narrow_images(const KernelTable& table, ThreadPool& pool, const WideGradInput& args,
                             const int64_t* sums, int64_t first, int64_t images) {
  const int64_t image = args.shape.input_count() / args.shape.batch;
  const NarrowWide narrow{sums, args.shift, args.grad_input.from(first * image)};
  return parallel_statistics(
      pool, images * image, kElementsPerThread,
      [&](int64_t begin, int64_t end) { return table.wide->narrow(narrow, begin, end); });
}

WideStatistics depthwise_grad_input(const KernelTable& table, const WideGradInput& args,
                                    const KernelContext& context) {
  ConvolutionShape s = args.shape;
  const int64_t batch = s.batch, images = input_images_per_chunk(s), out = s.output_count() / batch;
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data());
  const KernelContext inner{context.pool, context.scratch.subspan(depthwise_sums_bytes(s))};
  WideStatistics total;
  for (int64_t first = 0; first < batch; first += images) {
    s.batch = std::min(images, batch - first);
    const int64_t at = first * out * gradient_bytes(args.grad_output.bits);
    depthwise_wide(table,
                   {.shape = s,
                    .mirrored = true,
                    .source = {args.grad_output.as<std::byte>() + at, args.grad_output.bits},
                    .weights = args.weights,
                    .sums = sums},
                   inner);
    total += narrow_images(table, *context.pool, args, sums, first, s.batch);
  }
  return total;
}

}  // namespace

WideStatistics wide_grad_input(const KernelTable& table, const WideGradInput& args,
                               const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  if (is_depthwise_wide(s, args.grad_output.bits, args.weights.bits)) {
    return depthwise_grad_input(table, args, context);
  }
  ThreadPool& pool = *context.pool;
  const int64_t images = input_images_per_chunk(s);
  const BackwardScratch parts(backward_shape(s, images), args.grad_output.bits, args.weights.bits);
  std::byte* spread = context.scratch.data();
  std::byte* turned = spread + parts.gradient;
  auto* sums = reinterpret_cast<int64_t*>(turned + parts.weights);
  const KernelContext inner{&pool, context.scratch.subspan(parts.bytes())};
  with_value_type(args.weights.bits, [&](auto weight) {
    using Weight = decltype(weight);
    turn_weights(s, args.weights.as<Weight>(), reinterpret_cast<Weight*>(turned));
  });
  const int64_t out_count = s.output_count() / s.batch;
  WideStatistics total;
  for (int64_t first = 0; first < s.batch; first += images) {
    const ConvolutionShape to = backward_shape(s, std::min(images, s.batch - first));
    with_gradient_type(args.grad_output.bits, [&](auto grad) {
      using Grad = decltype(grad);
      const auto* from = args.grad_output.as<Grad>() + first * out_count;
      parallel_ranges(pool, to.batch, 1, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t n = begin; n < end; ++n) {
          spread_gradient(s, to, from + n * out_count,
                          reinterpret_cast<Grad*>(spread) + n * (to.input_count() / to.batch));
        }
      });
    });
    wide_forward(table,
                 {.shape = to,
                  .input = {spread, args.grad_output.bits},
                  .weights = {turned, args.weights.bits},
                  .sums = sums},
                 inner);
    total += narrow_images(table, pool, args, sums, first, to.batch);
  }
  return total;
}

size_t wide_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                     int gradient_bits, int weight_bits, int threads) noexcept {
  if (is_depthwise_wide(shape, gradient_bits, weight_bits)) {
    return depthwise_sums_bytes(shape) + depthwise_wide_scratch_bytes(shape);
  }
  const int64_t images = input_images_per_chunk(shape);
  return BackwardScratch(backward_shape(shape, images), gradient_bits, weight_bits).bytes() +
         most_of_pieces(shape.batch, images, [&](int64_t batch) {
           return wide_forward_scratch_bytes(table, backward_shape(shape, batch), gradient_bits,
                                             weight_bits, threads);
         });
}

namespace {

// Parts of the forward pass's scratch; what the kernel needs follows.
struct ForwardScratch {
  WindowSums windows;
  size_t constants, part, input, weights;

  ForwardScratch(const ConvolutionShape& s, int input_bits, int weight_bits)
      : windows(s, weight_bits),
        constants(aligned_bytes(s.out_channels * 8)),
        part(aligned_bytes(s.output_count() * 4)),
        input(plane_bytes(input_bits, plane_shape(s, input_bits).input_count())),
        weights(planes_bytes(weight_bits, s.weights_count())) {}
  size_t bytes() const { return windows.bytes() + constants + part + input + weights; }
};

}  // namespace

void wide_forward(const KernelTable& table, const WideForward& args,
                  const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  if (is_depthwise_wide(s, args.input.bits, args.weights.bits)) {
    return depthwise_wide(table,
                          {.shape = s,
                           .source = args.input,
                           .weights = args.weights,
                           .bias = args.bias,
                           .sums = args.sums},
                          context);
  }
  const ConvolutionShape shape = plane_shape(s, args.input.bits);
  const ForwardScratch parts(s, args.input.bits, args.weights.bits);
  ThreadPool& pool = *context.pool;
  std::byte* const scratch = context.scratch.data();
  auto* constants = reinterpret_cast<int64_t*>(scratch + parts.windows.bytes());
  auto* part = reinterpret_cast<int32_t*>(scratch + parts.windows.bytes() + parts.constants);
  auto* input = reinterpret_cast<int8_t*>(part) + parts.part;
  int8_t* weights = input + parts.input;
  const KernelContext inner{&pool, context.scratch.subspan(parts.bytes())};
  std::array<const int8_t*, 2> by{};
  for (int j = 0; j < planes_of(args.weights.bits); ++j) {
    by[j] = weights_plane(table, pool, args.weights, s.weights_count(), j, weights);
    weights += plane_bytes(args.weights.bits, s.weights_count());
  }
  find_constants(args, constants);
  const bool wide_weights = planes_of(args.weights.bits) > 1;
  start_sums(table, pool, args, constants,
             wide_weights ? parts.windows.find(table, pool, s, args.input, scratch) : nullptr);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = input_plane(table, pool, s, args.input, i, input);
    for (int j = 0; j < planes_of(args.weights.bits); ++j) {
      convolution_forward(table.convolution,
                          {.shape = shape, .input = from, .weights = by[j], .sums = part}, inner);
      add_shifted(table, pool, {part, 32}, 8 * (i + j), s.output_count(), args.sums);
    }
  }
}

size_t wide_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                  int input_bits, int weight_bits, int threads) noexcept {
  if (is_depthwise_wide(shape, input_bits, weight_bits)) return depthwise_wide_scratch_bytes(shape);
  return ForwardScratch(shape, input_bits, weight_bits).bytes() +
         convolution_forward_scratch_bytes(table.convolution, plane_shape(shape, input_bits),
                                           threads);
}

namespace {

// Parts of the scratch of wide_grad_weights; what the kernel needs follows.
struct GradWeightsScratch {
  size_t sums, gradients, input;

  GradWeightsScratch(const ConvolutionShape& s, int input_bits, int threads)
      : sums(aligned_bytes(s.weights_count() * 8)),
        gradients(aligned_bytes(std::min<int64_t>(threads, kMaximumParts) * s.out_channels * 8)),
        input(plane_bytes(input_bits, plane_shape(s, input_bits).input_count())) {}
  size_t bytes() const { return 2 * sums + gradients + input; }
};

// sums = what the planes of the input lack: kOffset times each channel's gradients.
void start_weight_sums(const KernelTable& table, ThreadPool& pool, const WideGradWeights& args,
                       int64_t* gradients, int64_t* sums) {
  const ConvolutionShape& s = args.shape;
  const int64_t channels = s.out_channels, depth = s.weights_count() / channels;
  if (planes_of(args.input.bits) == 1) {
    std::fill_n(sums, s.weights_count(), 0);
    return;
  }
  const int64_t parts = parallel_ranges(
      pool, s.output_count() / channels, std::max<int64_t>(1, kElementsPerThread / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        std::fill_n(gradients + part * channels, channels, 0);
        table.elementwise->sum_rows(args.grad_output, channels, begin, end,
                                    gradients + part * channels);
      });
  for (int64_t i = channels; i < parts * channels; ++i) gradients[i % channels] += gradients[i];
  for (int64_t o = 0; o < channels; ++o) {
    std::fill_n(sums + o * depth, depth, kOffset * gradients[o]);
  }
}

}  // namespace

void wide_grad_weights(const KernelTable& table, const WideGradWeights& args,
                       const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  ThreadPool& pool = *context.pool;
  const GradWeightsScratch parts(s, args.input.bits, pool.size());
  std::byte* const scratch = context.scratch.data();
  auto* sums = reinterpret_cast<int64_t*>(scratch);
  auto* part = reinterpret_cast<int64_t*>(scratch + parts.sums);
  auto* gradients = reinterpret_cast<int64_t*>(scratch + 2 * parts.sums);
  auto* input = reinterpret_cast<int8_t*>(gradients) + parts.gradients;
  const KernelContext inner{&pool, context.scratch.subspan(parts.bytes())};
  start_weight_sums(table, pool, args, gradients, sums);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = input_plane(table, pool, s, args.input, i, input);
    convolution_grad_weights(table.convolution,
                             {.shape = plane_shape(s, args.input.bits),
                              .input = from,
                              .grad_output = args.grad_output,
                              .shift = 0,
                              .totals = {part},
                              .adds = false},
                             inner);
    add_shifted(table, pool, {part}, 8 * i, s.weights_count(), sums);
  }
  add_sums(pool, sums, args.shift, s.weights_count(), args.adds, {args.accumulator});
}

size_t wide_grad_weights_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                       int input_bits, int gradient_bits, int threads) noexcept {
  return GradWeightsScratch(shape, input_bits, threads).bytes() +
         convolution_grad_weights_scratch_bytes(table.convolution, plane_shape(shape, input_bits),
                                                gradient_bits, threads);
}

}  // namespace mantissa::kernels
