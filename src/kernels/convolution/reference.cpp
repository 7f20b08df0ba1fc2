// The normative convolution: plain loops, exact sums, one thread. Slow on purpose, simple on
// purpose.
#include <algorithm>
#include <type_traits>

#include "kernels/common/exact_sums.h"
#include "kernels/convolution/choice.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

// Offsets of the innermost rows (channels) in the dense layouts.
int64_t input_at(const ConvolutionShape& s, int64_t n, int64_t y, int64_t x) {
  return ((n * s.in_height + y) * s.in_width + x) * s.in_channels;
}
int64_t output_at(const ConvolutionShape& s, int64_t n, int64_t y, int64_t x) {
  return ((n * s.out_height + y) * s.out_width + x) * s.out_channels;
}
int64_t weights_at(const ConvolutionShape& s, int64_t o, int64_t ky, int64_t kx) {
  return ((o * s.kernel_height + ky) * s.kernel_width + kx) * s.group_in_channels();
}

// The first input channel that output channel o reads.
int64_t first_channel(const ConvolutionShape& s, int64_t o) {
  return o / s.group_out_channels() * s.group_in_channels();
}

// Calls visit(ky, kx, in_y, in_x) for each tap of output pixel (y, x) that is not padding.
template <typename Visit>
void for_each_tap(const ConvolutionShape& s, int64_t y, int64_t x, Visit&& visit) {
  for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
    const int64_t in_y = y * s.stride_height + ky * s.dilation - s.padding_height;
    if (in_y < 0 || in_y >= s.in_height) continue;
    for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
      const int64_t in_x = x * s.stride_width + kx * s.dilation - s.padding_width;
      if (in_x < 0 || in_x >= s.in_width) continue;
      visit(ky, kx, in_y, in_x);
    }
  }
}

// Calls visit(n, y, x) for each output pixel.
template <typename Visit>
void for_each_output(const ConvolutionShape& s, Visit&& visit) {
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t y = 0; y < s.out_height; ++y) {
      for (int64_t x = 0; x < s.out_width; ++x) visit(n, y, x);
    }
  }
}

WideStatistics forward(const ConvolutionForward& args, ConvolutionParts,
                       const KernelContext&) noexcept {
  const ConvolutionShape& s = args.shape;
  WideStatistics statistics;
  for_each_output(s, [&](int64_t n, int64_t y, int64_t x) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      int32_t sum = args.bias != nullptr ? args.bias[o] : 0;
      for_each_tap(s, y, x, [&](int64_t ky, int64_t kx, int64_t in_y, int64_t in_x) {
        const int8_t* in = args.input + input_at(s, n, in_y, in_x) + first_channel(s, o);
        const int8_t* weights = args.weights + weights_at(s, o, ky, kx);
        for (int64_t c = 0; c < s.group_in_channels(); ++c) sum += in[c] * weights[c];
      });
      const int64_t at = output_at(s, n, y, x) + o;
      if (args.sums != nullptr) {
        args.sums[at] = sum;
      } else {
        const int64_t rounded = shift_right_rne(sum, args.shift);
        args.output[at] = static_cast<int8_t>(saturate(rounded, mantissa_limit(args.bits)));
        statistics.saturated += args.output[at] != rounded;
        if (args.counts.wide != nullptr) args.counts.wide->add(magnitude(sum));
      }
      statistics.maximum = std::max(statistics.maximum, magnitude(sum));
    }
  });
  return statistics;
}

// Sums [N, H, W, C] of the gradient with respect to the input.
template <typename T>
void add_grad_input(const ConvolutionGradInput& args, int64_t* wide) {
  const ConvolutionShape& s = args.shape;
  for_each_output(s, [&](int64_t n, int64_t y, int64_t x) {
    const T* grad = args.grad_output.as<T>() + output_at(s, n, y, x);
    for_each_tap(s, y, x, [&](int64_t ky, int64_t kx, int64_t in_y, int64_t in_x) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        int64_t* sums = wide + input_at(s, n, in_y, in_x) + first_channel(s, o);
        const int8_t* weights = args.weights + weights_at(s, o, ky, kx);
        for (int64_t c = 0; c < s.group_in_channels(); ++c) sums[c] += grad[o] * weights[c];
      }
    });
  });
}

WideStatistics grad_input(const ConvolutionGradInput& args, ConvolutionParts,
                          const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t limit = mantissa_limit(args.grad_input.bits);
  auto* wide = reinterpret_cast<int64_t*>(context.scratch.data());
  std::fill_n(wide, s.input_count(), 0);
  with_gradient_type(args.grad_output.bits,
                     [&](auto type) { add_grad_input<decltype(type)>(args, wide); });
  return with_gradient_type(args.grad_input.bits, [&](auto type) {
    WideStatistics statistics;
    for (int64_t i = 0; i < s.input_count(); ++i) {
      const int64_t rounded = shift_right_rne(wide[i], args.shift);
      const int64_t narrow = saturate(rounded, limit);
      args.grad_input.as<decltype(type)>()[i] = static_cast<decltype(type)>(narrow);
      statistics.maximum = std::max(statistics.maximum, magnitude(wide[i]));
      statistics.saturated += narrow != rounded;
      if (args.counts.wide != nullptr) args.counts.wide->add(magnitude(wide[i]));
    }
    return statistics;
  });
}

// T is int32_t for gradients of more than 16 bits, whose products int32 does not hold.
template <typename T>
void add_grad_weights(const ConvolutionGradWeights& args, int64_t* sums) {
  using Factor = std::conditional_t<sizeof(T) == sizeof(int32_t), int64_t, int32_t>;
  const ConvolutionShape& s = args.shape;
  for_each_output(s, [&](int64_t n, int64_t y, int64_t x) {
    const T* grad = args.grad_output.as<T>() + output_at(s, n, y, x);
    for_each_tap(s, y, x, [&](int64_t ky, int64_t kx, int64_t in_y, int64_t in_x) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        const int8_t* in = args.input + input_at(s, n, in_y, in_x) + first_channel(s, o);
        int64_t* row = sums + weights_at(s, o, ky, kx);
        for (int64_t c = 0; c < s.group_in_channels(); ++c) row[c] += Factor{grad[o]} * in[c];
      }
    });
  });
}

void grad_weights(const ConvolutionGradWeights& args, ConvolutionParts,
                  const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data());
  std::fill_n(sums, s.weights_count(), 0);
  with_wide_gradient_type(args.grad_output.bits,
                          [&](auto type) { add_grad_weights<decltype(type)>(args, sums); });
  for (int64_t i = 0; i < s.weights_count(); ++i) {
    add_sum(sums[i], args.shift, args.adds, args.totals, i);
  }
}

size_t no_scratch_bytes(const ConvolutionShape&, int, ConvolutionParts) noexcept { return 0; }

size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int, int,
                                ConvolutionParts) noexcept {
  return static_cast<size_t>(shape.input_count()) * sizeof(int64_t);
}

size_t grad_weights_scratch_bytes(const ConvolutionShape& shape, int, int,
                                  ConvolutionParts) noexcept {
  return static_cast<size_t>(shape.weights_count()) * sizeof(int64_t);
}

}  // namespace

const ConvolutionKernels kConvolutionReference = {
    .name = "convolution_reference",
    .needs = kNeedsNothing,
    .declines = [](const ConvolutionWork&) noexcept -> const char* { return nullptr; },
    .parts = nullptr,
    .forward = forward,
    .forward_scratch_bytes = no_scratch_bytes,
    .grad_input = grad_input,
    .grad_input_scratch_bytes = grad_input_scratch_bytes,
    .grad_weights = grad_weights,
    .grad_weights_scratch_bytes = grad_weights_scratch_bytes,
};

}  // namespace mantissa::kernels
