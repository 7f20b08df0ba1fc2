#include "kernels/convolution_wide.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/convolution_choice.h"
#include "kernels/exact_sums.h"
#include "kernels/parallel_ranges.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kGrain = 16384;

// Two digits hold up to 64 * 128 + 63, three all of 16 bits.
constexpr int planes_of(int bits) { return bits <= 8 ? 1 : bits <= 14 ? 2 : 3; }

// One plane of an operand of `count` elements, written to `scratch` unless it is the operand
// itself.
const int8_t* plane_of(const KernelTable& table, ThreadPool& pool, ConstValue operand,
                       int64_t count, int plane, int8_t* scratch) {
  const int planes = planes_of(operand.bits);
  if (planes == 1) return operand.as<int8_t>();
  const Digits args{operand.as<int16_t>(), plane, plane == planes - 1, scratch};
  parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
    table.wide->digits(args, begin, end);
  });
  return scratch;
}

// Bytes of scratch that one plane takes.
size_t plane_bytes(int bits, int64_t count) {
  return planes_of(bits) == 1 ? 0 : aligned_bytes(count);
}

size_t planes_bytes(int bits, int64_t count) {
  return static_cast<size_t>(planes_of(bits)) * plane_bytes(bits, count);
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
void add_shifted(const KernelTable& table, ThreadPool& pool, const GradientSums& part, int shift,
                 int64_t count, int64_t* sums) {
  parallel_ranges(pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
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

}  // namespace

WideStatistics wide_grad_input(const KernelTable& table, const WideGradInput& args,
                               const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  ThreadPool& pool = *context.pool;
  const int64_t images = wide_images_per_chunk(backward_shape(s, s.batch));
  const BackwardScratch parts(backward_shape(s, images), args.grad_output.bits, args.weights.bits);
  std::byte* spread = context.scratch.data();
  std::byte* turned = spread + parts.gradient;
  auto* sums = reinterpret_cast<int64_t*>(turned + parts.weights);
  const KernelContext inner{&pool, context.scratch.subspan(parts.bytes())};
  with_value_type(args.weights.bits, [&](auto weight) {
    using Weight = decltype(weight);
    turn_weights(s, args.weights.as<Weight>(), reinterpret_cast<Weight*>(turned));
  });
  const int64_t in_count = s.input_count() / s.batch, out_count = s.output_count() / s.batch;
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
    const NarrowWide narrow{sums, args.shift, args.grad_input.from(first * in_count)};
    total += parallel_statistics(pool, to.output_count(), kGrain, [&](int64_t begin, int64_t end) {
      return table.wide->narrow(narrow, begin, end);
    });
  }
  return total;
}

size_t wide_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                     int gradient_bits, int weight_bits, int threads) noexcept {
  const int64_t images = wide_images_per_chunk(backward_shape(shape, shape.batch));
  return BackwardScratch(backward_shape(shape, images), gradient_bits, weight_bits).bytes() +
         most_of_pieces(shape.batch, images, [&](int64_t batch) {
           return wide_forward_scratch_bytes(table, backward_shape(shape, batch), gradient_bits,
                                             weight_bits, threads);
         });
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
                    planes_bytes(args.weights.bits, s.weights_count());
  const KernelContext inner{context.pool, context.scratch.subspan(used)};
  std::array<const int8_t*, 3> by{};
  for (int j = 0; j < planes_of(args.weights.bits); ++j) {
    by[j] = plane_of(table, pool, args.weights, s.weights_count(), j, weights);
    weights += plane_bytes(args.weights.bits, s.weights_count());
  }
  start_sums(args, pool);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = plane_of(table, pool, args.input, s.input_count(), i, input);
    for (int j = 0; j < planes_of(args.weights.bits); ++j) {
      convolution_forward(table, {.shape = s, .input = from, .weights = by[j], .wide = wide},
                          inner);
      add_shifted(table, pool, {wide, 32}, kValueDigitBits * (i + j), s.output_count(), args.sums);
    }
  }
}

size_t wide_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                  int input_bits, int weight_bits, int threads) noexcept {
  return aligned_bytes(shape.output_count() * 4) + plane_bytes(input_bits, shape.input_count()) +
         planes_bytes(weight_bits, shape.weights_count()) +
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
    const int8_t* from = plane_of(table, pool, args.input, s.input_count(), i, input);
    convolution_grad_weights(table,
                             {.shape = s,
                              .input = from,
                              .grad_output = args.grad_output,
                              .shift = 0,
                              .totals = {part},
                              .adds = false},
                             inner);
    add_shifted(table, pool, {part}, kValueDigitBits * i, count, sums);
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
