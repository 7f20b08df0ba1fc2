// The forward pass by planes: each pair of planes is convolved exactly in int32.
#include "kernels/wide_convolution/planes.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/checked.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/wide_convolution/rows.h"

namespace mantissa::kernels {
namespace planes {
namespace {

// One plane of weights, written to `scratch` unless there is only one.
const int8_t* weights_plane(const KernelTable& table, ThreadPool& pool, ConstMantissaSpan weights,
                            int64_t count, int plane, int8_t* scratch) {
  if (planes_of(weights.bits) == 1) return weights.as<int8_t>();
  parallel_ranges(pool, count, kElementsPerThread, [&](int64_t begin, int64_t end, int64_t) {
    table.wide->plane({weights.as<int16_t>(), plane, scratch}, begin, end);
  });
  return scratch;
}

bool windows_are_pixels(const ConvolutionShape& s) {
  return s.kernel_height * s.kernel_width == 1 && s.stride_height == 1 && s.stride_width == 1 &&
         s.padding_height == 0 && s.padding_width == 0;
}

// Sums over the part of the images in an output pixel's window, by group: [N, OH, OW, G]. They stay
// below 2^31 by kMaximumForwardDepth.
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
      const int64_t y = out_y * s.stride_height + ky * s.dilation - s.padding_height;
      if (y < 0 || y >= s.in_height) continue;
      for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
        // x = out_x * stride + left, inside the image.
        const int64_t left = kx * s.dilation - s.padding_width;
        const int64_t first = left >= 0 ? 0 : divide_up(-left, s.stride_width);
        const int64_t end = std::min(s.out_width, divide_up(s.in_width - left, s.stride_width));
        const int64_t run = s.stride_width == 1 ? end - first : 1;
        for (int64_t out_x = first; out_x < end; out_x += run) {
          const int64_t pixel = y * s.in_width + out_x * s.stride_width + left;
          table.wide->add(image + pixel * s.groups, row + out_x * s.groups, 0, run * s.groups);
        }
      }
    }
  }
};

// Every pixel's sums begin with the bias and the 128s that the planes of the input lack, by
// channel.
void find_constants(const KernelTable& table, const WideForward& args, int64_t* constants) {
  const ConvolutionShape& s = args.shape;
  const int64_t depth = s.weights_count() / s.out_channels, bytes = gradient_bytes(args.weights.bits);
  const bool wide_input = planes_of(args.input.bits) > 1;
  const bool wide_weights = planes_of(args.weights.bits) > 1;
  for (int64_t o = 0; o < s.out_channels; ++o) {
    int64_t constant = args.bias == nullptr ? 0 : args.bias[o];
    if (wide_input) {
      int32_t sum = 0;
      ConstMantissaSpan of_channel = args.weights;
      of_channel.data = args.weights.as<std::byte>() + o * depth * bytes;
      table.wide->group_sums({of_channel, 1, depth, &sum}, 0, 1);
      constant += kOffset * int64_t{sum};
    }
    if (wide_input && wide_weights) constant -= kOffset * kOffset * depth;
    constants[o] = constant;
  }
}

// sums = constants + the 128s that the planes of weights lack: kOffset times `windows`, or null.
void start_sums(const KernelTable& table, ThreadPool& pool, const WideForward& args,
                const int64_t* constants, const int32_t* windows) {
  const ConvolutionShape& s = args.shape;
  const FirstSums sums{constants, windows, kOffset, s.groups, s.group_out_channels(), args.sums};
  parallel_ranges(
      pool, s.output_count() / s.out_channels,
      std::max<int64_t>(1, kElementsPerThread / s.out_channels),
      [&](int64_t begin, int64_t end, int64_t) { table.wide->first_sums(sums, begin, end); });
}

// Parts of the forward pass's scratch; the scratch of the kernel follows.
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

const int8_t* input_plane(const KernelTable& table, ThreadPool& pool, const ConvolutionShape& s,
                          ConstMantissaSpan input, int plane, int8_t* scratch) {
  if (planes_of(input.bits) == 1) return input.as<int8_t>();
  const ConvolutionShape to = plane_shape(s, input.bits);
  const int64_t from_row = s.in_width * s.in_channels, to_row = to.in_width * s.in_channels;
  const int64_t left = s.padding_width * s.in_channels;
  const auto zero = static_cast<int8_t>(plane == 0 ? -kOffset : 0);
  parallel_ranges(
      pool, s.batch * to.in_height, std::max<int64_t>(1, kElementsPerThread / to_row),
      [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t image = row / to.in_height, y = row % to.in_height - s.padding_height;
          int8_t* const out = scratch + row * to_row;
          if (y < 0 || y >= s.in_height) {
            std::fill_n(out, to_row, zero);
            continue;
          }
          std::fill_n(out, left, zero);
          const int16_t* const in = input.as<int16_t>() + (image * s.in_height + y) * from_row;
          table.wide->plane({in, plane, out + left}, 0, from_row);
          std::fill_n(out + left + from_row, left, zero);
        }
      });
  return scratch;
}

void add_shifted(const KernelTable& table, ThreadPool& pool, const GradientSums& part, int shift,
                 int64_t count, int64_t* sums) {
  parallel_ranges(pool, count, kElementsPerThread, [&](int64_t begin, int64_t end, int64_t) {
    table.wide->add_shifted(part, shift, sums, begin, end);
  });
}

std::vector<ConvolutionChoice> forward_planes(const KernelTable& table,
                                              const ConvolutionShape& shape, int input_bits) {
  return {choose_convolution(table.convolution, {.shape = plane_shape(shape, input_bits)})};
}

void forward(const KernelTable& table, const WideForward& args, ConvolutionParts planes,
             const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
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
  find_constants(table, args, constants);
  const bool wide_weights = planes_of(args.weights.bits) > 1;
  start_sums(table, pool, args, constants,
             wide_weights ? parts.windows.find(table, pool, s, args.input, scratch) : nullptr);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = input_plane(table, pool, s, args.input, i, input);
    for (int j = 0; j < planes_of(args.weights.bits); ++j) {
      planes[0].forward({.shape = shape, .input = from, .weights = by[j], .sums = part}, inner);
      add_shifted(table, pool, {part, 32}, 8 * (i + j), s.output_count(), args.sums);
    }
  }
}

size_t forward_scratch_bytes(const ConvolutionShape& shape, int input_bits, int weight_bits,
                             int threads, ConvolutionParts planes) noexcept {
  return ForwardScratch(shape, input_bits, weight_bits).bytes() + planes[0].scratch_bytes(threads);
}

}  // namespace planes

const WideConvolutionRow kWideByPlanes = {
    .name = "planes",
    .declines = [](const ConvolutionShape&, int, int) noexcept -> const char* { return nullptr; },
    .forward_planes = planes::forward_planes,
    .grad_input_planes = planes::grad_input_planes,
    .forward = planes::forward,
    .forward_scratch_bytes = planes::forward_scratch_bytes,
    .grad_input = planes::grad_input,
    .grad_input_scratch_bytes = planes::grad_input_scratch_bytes};

}  // namespace mantissa::kernels
