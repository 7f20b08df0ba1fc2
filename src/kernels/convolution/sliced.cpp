#include "kernels/convolution/sliced.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/thread_pool.h"
#include "kernels/convolution/pieces.h"
#include "kernels/exact_sums.h"

namespace mantissa::kernels {
namespace {

// So many of `all` channels that their weights take about as much as a core's cache holds, or as
// the pixels, which each slice reads anew; fewer where threads would have too few slices.
int64_t slice(const ConvolutionShape& s, int64_t all) {
  constexpr int64_t kLargeWeights = int64_t{16} << 20, kCacheBytes = int64_t{1} << 20;
  constexpr int64_t kFewPixels = 16, kSlices = 32, kUnit = 64;
  const int64_t weights = s.weights_count(), pixels = s.input_count() + 2 * s.output_count();
  if (s.groups > 1 || s.dilation > 1 || weights < kLargeWeights || kFewPixels * pixels > weights) {
    return 0;
  }
  const int64_t wanted = divide_up(std::max(kCacheBytes, pixels), weights / all);
  const int64_t channels = round_up<int64_t>(std::min(wanted, divide_up(all, kSlices)), kUnit);
  return channels < all ? channels : 0;
}

ConvolutionShape with_outputs(ConvolutionShape s, int64_t channels) {
  s.out_channels = channels;
  return s;
}

ConvolutionShape with_inputs(ConvolutionShape s, int64_t channels) {
  s.in_channels = channels;
  return s;
}

// Calls run(first, count, context) for slices of `all` channels, each with so many bytes of scratch
// and no other thread; returns the combined statistics.
template <typename Run>
WideStatistics for_each_slice(const KernelContext& context, int64_t all, int64_t channels,
                              size_t scratch_bytes, const Run& run) {
  std::array<WideStatistics, kMaximumParts> partial;
  const int64_t slices = divide_up(all, channels);
  const int64_t workers = std::min({slices, int64_t{context.pool->size()}, kMaximumParts});
  std::atomic<int64_t> next{0};
  context.pool->parallel_for(workers, [&](int64_t worker, int) {
    ThreadPool alone(1);
    const KernelContext own{
        &alone,
        context.scratch.subspan(static_cast<size_t>(worker) * scratch_bytes, scratch_bytes)};
    for (int64_t i = next.fetch_add(1); i < slices; i = next.fetch_add(1)) {
      partial[worker] += run(i * channels, std::min(channels, all - i * channels), own);
    }
  });
  WideStatistics total;
  for (const WideStatistics& found : partial) total += found;
  return total;
}

size_t threads_bytes(size_t of_one, int64_t all, int64_t channels, int threads) {
  const int64_t parts = std::min({int64_t{threads}, kMaximumParts, divide_up(all, channels)});
  return static_cast<size_t>(parts) * of_one;
}

// Of one slice: its result, then what the row needs.
size_t forward_bytes(const ConvolutionKernels& dense, const ConvolutionShape& shape,
                     int64_t channels) {
  return most_of_pieces(shape.out_channels, channels, [&](int64_t count) {
    const ConvolutionShape part = with_outputs(shape, count);
    return aligned_bytes(part.output_count() * 4) +
           aligned_bytes(static_cast<int64_t>(dense.forward_scratch_bytes(part, 1)));
  });
}

// Of one slice: its weights, its result, then what the row needs.
size_t grad_input_bytes(const ConvolutionKernels& dense, const ConvolutionShape& shape,
                        int64_t channels, int bits) {
  return most_of_pieces(shape.in_channels, channels, [&](int64_t count) {
    const ConvolutionShape part = with_inputs(shape, count);
    return aligned_bytes(part.weights_count()) + aligned_bytes(part.input_count() * 2) +
           aligned_bytes(static_cast<int64_t>(dense.grad_input_scratch_bytes(part, bits, 1)));
  });
}

}  // namespace

int64_t forward_slice(const ConvolutionShape& shape) noexcept {
  return slice(shape, shape.out_channels);
}

int64_t grad_input_slice(const ConvolutionShape& shape) noexcept {
  return slice(shape, shape.in_channels);
}

WideStatistics sliced_forward(const ConvolutionKernels& dense, const ConvolutionForward& args,
                              int64_t channels, const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t element = args.wide != nullptr ? 4 : 1;
  auto* all = args.wide != nullptr ? reinterpret_cast<std::byte*>(args.wide)
                                   : reinterpret_cast<std::byte*>(args.narrow);
  const auto run = [&](int64_t first, int64_t count, const KernelContext& own) {
    ConvolutionForward part = args;
    part.counts = nullptr;  // of the whole result, by the caller
    part.shape = with_outputs(s, count);
    part.weights += first * (s.weights_count() / s.out_channels);
    if (part.bias != nullptr) part.bias += first;
    std::byte* result = own.scratch.data();
    if (args.wide != nullptr) part.wide = reinterpret_cast<int32_t*>(result);
    if (args.narrow != nullptr) part.narrow = reinterpret_cast<int8_t*>(result);
    const size_t used = aligned_bytes(part.shape.output_count() * 4);
    const WideStatistics found = dense.forward(part, {own.pool, own.scratch.subspan(used)});
    copy_rows(*own.pool, result, count * element, all + first * element, s.out_channels * element,
              count * element, s.output_count() / s.out_channels);
    return found;
  };
  return for_each_slice(context, s.out_channels, channels, forward_bytes(dense, s, channels), run);
}

size_t sliced_forward_scratch_bytes(const ConvolutionKernels& dense, const ConvolutionShape& shape,
                                    int64_t channels, int threads) noexcept {
  return threads_bytes(forward_bytes(dense, shape, channels), shape.out_channels, channels,
                       threads);
}

WideStatistics sliced_grad_input(const ConvolutionKernels& dense, const ConvolutionGradInput& args,
                                 int64_t channels, const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t element = gradient_bytes(args.grad_input.bits);
  const auto* weights = reinterpret_cast<const std::byte*>(args.weights);
  auto* all = static_cast<std::byte*>(args.grad_input.data);
  const auto run = [&](int64_t first, int64_t count, const KernelContext& own) {
    ConvolutionGradInput part = args;
    part.counts = nullptr;  // of the whole result, by the caller
    part.shape = with_inputs(s, count);
    std::byte* own_weights = own.scratch.data();
    std::byte* result = own_weights + aligned_bytes(part.shape.weights_count());
    copy_rows(*own.pool, weights + first, s.in_channels, own_weights, count, count,
              s.weights_count() / s.in_channels);
    part.weights = reinterpret_cast<const int8_t*>(own_weights);
    part.grad_input.data = result;
    const size_t used =
        aligned_bytes(part.shape.weights_count()) + aligned_bytes(part.shape.input_count() * 2);
    const WideStatistics found = dense.grad_input(part, {own.pool, own.scratch.subspan(used)});
    copy_rows(*own.pool, result, count * element, all + first * element, s.in_channels * element,
              count * element, s.input_count() / s.in_channels);
    return found;
  };
  return for_each_slice(context, s.in_channels, channels,
                        grad_input_bytes(dense, s, channels, args.grad_output.bits), run);
}

size_t sliced_grad_input_scratch_bytes(const ConvolutionKernels& dense,
                                       const ConvolutionShape& shape, int64_t channels, int bits,
                                       int threads) noexcept {
  return threads_bytes(grad_input_bytes(dense, shape, channels, bits), shape.in_channels, channels,
                       threads);
}

}  // namespace mantissa::kernels
