#include "kernels/convolution_wide.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/convolution_choice.h"
#include "kernels/exact_sums.h"
#include "kernels/parallel_ranges.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int kDigitBits = 7;
constexpr int64_t kHalfDigit = 1 << (kDigitBits - 1);

// Two digits hold up to 64 * 128 + 63, three all of 16 bits.
constexpr int planes_of(int bits) { return bits <= 8 ? 1 : bits <= 14 ? 2 : 3; }

// Digit `plane` of x: the rest in [-64, 63], or in the last plane all that is left.
int8_t digit(int64_t x, int plane, bool last) {
  for (int below = 0; below < plane; ++below) x = (x + kHalfDigit) >> kDigitBits;
  if (!last) x = ((x + kHalfDigit) & (2 * kHalfDigit - 1)) - kHalfDigit;
  return static_cast<int8_t>(x);
}

// One plane of an operand of `count` elements, written to `scratch` unless it is the operand
// itself.
const int8_t* plane_of(ThreadPool& pool, ConstValue operand, int64_t count, int plane,
                       int8_t* scratch) {
  const int planes = planes_of(operand.bits);
  if (planes == 1) return operand.as<int8_t>();
  const auto* from = operand.as<int16_t>();
  parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) scratch[i] = digit(from[i], plane, plane + 1 == planes);
  });
  return scratch;
}

// Bytes of scratch that one plane takes.
size_t plane_bytes(int bits, int64_t count) {
  return planes_of(bits) == 1 ? 0 : aligned_bytes(count);
}

// sums = bias, row after row.
void start_sums(const WideForward& args, ThreadPool& pool) {
  const int64_t channels = args.shape.out_channels;
  parallel_ranges(pool, args.shape.output_count() / channels,
                  std::max<int64_t>(1, kGrain / channels),
                  [&](int64_t begin, int64_t end, int64_t) {
                    for (int64_t row = begin; row < end; ++row) {
                      int64_t* sums = args.sums + row * channels;
                      if (args.bias == nullptr) {
                        std::fill_n(sums, channels, 0);
                      } else {
                        std::copy_n(args.bias, channels, sums);
                      }
                    }
                  });
}

// sums += part * 2^shift.
template <typename Part>
void add_shifted(ThreadPool& pool, const Part* part, int shift, int64_t count, int64_t* sums) {
  parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) sums[i] += part[i] * (int64_t{1} << shift);
  });
}

// Calls visit(output pixel, tap, input pixel) for the pixels and taps of an image that meet.
template <typename Visit>
void for_each_meeting(const ConvolutionShape& s, const Visit& visit) {
  for (int64_t out = 0; out < s.out_height * s.out_width; ++out) {
    const int64_t y = out / s.out_width * s.stride - s.padding;
    const int64_t x = out % s.out_width * s.stride - s.padding;
    for (int64_t tap = 0; tap < s.kernel_height * s.kernel_width; ++tap) {
      const int64_t in_y = y + tap / s.kernel_width * s.dilation;
      const int64_t in_x = x + tap % s.kernel_width * s.dilation;
      if (in_y < 0 || in_y >= s.in_height || in_x < 0 || in_x >= s.in_width) continue;
      visit(out, tap, in_y * s.in_width + in_x);
    }
  }
}

// sums[y, x, c] of one image; `grads` are those of its outputs.
template <typename Grad, typename Weight>
void grad_input_sums(const ConvolutionShape& s, const Grad* grads, const Weight* weights,
                     int64_t* sums) {
  const int64_t channels = s.group_in_channels(), taps = s.kernel_height * s.kernel_width;
  for_each_meeting(s, [&](int64_t out, int64_t tap, int64_t in) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      const int64_t grad = grads[out * s.out_channels + o];
      const Weight* row = weights + (o * taps + tap) * channels;
      int64_t* to = sums + in * s.in_channels + o / s.group_out_channels() * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] += grad * row[c];
    }
  });
}

template <typename To>
WideStatistics narrow_image(const int64_t* sums, int64_t count, int shift, int bits, To* to) {
  const int64_t limit = mantissa_limit(bits);
  WideStatistics found;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rounded = shift_right_rne(sums[i], shift);
    const int64_t narrow = saturate(rounded, limit);
    to[i] = static_cast<To>(narrow);
    found += {magnitude(sums[i]), narrow != rounded};
  }
  return found;
}

size_t image_bytes(const ConvolutionShape& s) {
  return aligned_bytes(s.in_height * s.in_width * s.in_channels * int64_t{sizeof(int64_t)});
}

}  // namespace

WideStatistics wide_grad_input(const WideGradInput& args, const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t in_count = s.input_count() / s.batch, out_count = s.output_count() / s.batch;
  std::array<WideStatistics, kMaximumParts> partial;
  const auto images = [&](int64_t begin, int64_t end, int64_t part) {
    auto* sums = reinterpret_cast<int64_t*>(context.scratch.data() +
                                            static_cast<size_t>(part) * image_bytes(s));
    for (int64_t n = begin; n < end; ++n) {
      std::fill_n(sums, in_count, 0);
      with_gradient_type(args.grad_output.bits, [&](auto grad) {
        with_value_type(args.weights.bits, [&](auto weight) {
          grad_input_sums(s, args.grad_output.as<decltype(grad)>() + n * out_count,
                          args.weights.as<decltype(weight)>(), sums);
        });
      });
      partial[part] += with_gradient_type(args.grad_input.bits, [&](auto to) {
        return narrow_image(sums, in_count, args.shift, args.grad_input.bits,
                            args.grad_input.as<decltype(to)>() + n * in_count);
      });
    }
  };
  const int64_t parts = parallel_ranges(*context.pool, s.batch, 1, images);
  WideStatistics total;
  for (int64_t part = 0; part < parts; ++part) total += partial[part];
  return total;
}

size_t wide_grad_input_scratch_bytes(const ConvolutionShape& shape, int threads) noexcept {
  return image_bytes(shape) *
         static_cast<size_t>(std::min({shape.batch, int64_t{threads}, kMaximumParts}));
}

void wide_forward(const KernelTable& table, const WideForward& args,
                  const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  ThreadPool& pool = *context.pool;
  std::byte* scratch = context.scratch.data();
  auto* wide = reinterpret_cast<int32_t*>(scratch);
  auto* input = reinterpret_cast<int8_t*>(scratch + aligned_bytes(s.output_count() * 4));
  auto* weights = input + plane_bytes(args.input.bits, s.input_count());
  const auto used = static_cast<size_t>(reinterpret_cast<std::byte*>(weights) - scratch) +
                    plane_bytes(args.weights.bits, s.weights_count());
  const KernelContext inner{context.pool, context.scratch.subspan(used)};
  start_sums(args, pool);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = plane_of(pool, args.input, s.input_count(), i, input);
    for (int j = 0; j < planes_of(args.weights.bits); ++j) {
      const int8_t* by = plane_of(pool, args.weights, s.weights_count(), j, weights);
      convolution_forward(table, {.shape = s, .input = from, .weights = by, .wide = wide}, inner);
      add_shifted(pool, wide, kDigitBits * (i + j), s.output_count(), args.sums);
    }
  }
}

size_t wide_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                  int input_bits, int weight_bits, int threads) noexcept {
  return aligned_bytes(shape.output_count() * 4) + plane_bytes(input_bits, shape.input_count()) +
         plane_bytes(weight_bits, shape.weights_count()) +
         convolution_forward_scratch_bytes(table, shape, threads);
}

void wide_grad_weights(const KernelTable& table, const WideGradWeights& args,
                       const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  ThreadPool& pool = *context.pool;
  const int64_t count = s.weights_count();
  const size_t sums_bytes = aligned_bytes(count * 8);
  std::byte* scratch = context.scratch.data();
  auto* sums = reinterpret_cast<int64_t*>(scratch);
  auto* part = reinterpret_cast<int64_t*>(scratch + sums_bytes);
  auto* input = reinterpret_cast<int8_t*>(scratch + 2 * sums_bytes);
  const size_t used = 2 * sums_bytes + plane_bytes(args.input.bits, s.input_count());
  const KernelContext inner{context.pool, context.scratch.subspan(used)};
  std::fill_n(sums, count, 0);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = plane_of(pool, args.input, s.input_count(), i, input);
    convolution_grad_weights(table,
                             {.shape = s,
                              .input = from,
                              .grad_output = args.grad_output,
                              .shift = 0,
                              .totals = {part},
                              .adds = false},
                             inner);
    add_shifted(pool, part, kDigitBits * i, count, sums);
  }
  add_sums(*context.pool, sums, args.shift, count, args.adds, {args.accumulator});
}

size_t wide_grad_weights_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                       int input_bits, int gradient_bits, int threads) noexcept {
  return 2 * aligned_bytes(shape.weights_count() * 8) +
         plane_bytes(input_bits, shape.input_count()) +
         convolution_grad_weights_scratch_bytes(table, shape, gradient_bits, threads);
}

}  // namespace mantissa::kernels
