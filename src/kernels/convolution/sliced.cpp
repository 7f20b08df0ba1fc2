#include "kernels/convolution/sliced.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/thread_pool.h"
#include "kernels/convolution/choice.h"
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

// Scratch of one slice: its result, then the scratch of the row that takes it.
size_t forward_bytes(ConvolutionRows below, const ConvolutionShape& shape, int64_t channels) {
  return most_of_pieces(shape.out_channels, channels, [&](int64_t count) {
    const ConvolutionShape part = with_outputs(shape, count);
    return aligned_bytes(part.output_count() * 4) +
           aligned_bytes(static_cast<int64_t>(convolution_forward_scratch_bytes(below, part, 1)));
  });
}

// Scratch of one slice: its weights, its result, then the scratch of the row that takes it.
size_t grad_input_bytes(ConvolutionRows below, const ConvolutionShape& shape, int64_t channels,
                        int bits) {
  return most_of_pieces(shape.in_channels, channels, [&](int64_t count) {
    const ConvolutionShape part = with_inputs(shape, count);
    return aligned_bytes(part.weights_count()) + aligned_bytes(part.input_count() * 2) +
           aligned_bytes(
               static_cast<int64_t>(convolution_grad_input_scratch_bytes(below, part, bits, 1)));
  });
}

}  // namespace

int64_t forward_slice(const ConvolutionShape& shape) noexcept {
  return slice(shape, shape.out_channels);
}

int64_t grad_input_slice(const ConvolutionShape& shape) noexcept {
  return slice(shape, shape.in_channels);
}

WideStatistics sliced_forward(ConvolutionRows below, const ConvolutionForward& args,
                              int64_t channels, const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t element = args.sums != nullptr ? 4 : 1;
  auto* all = args.sums != nullptr ? reinterpret_cast<std::byte*>(args.sums)
                                   : reinterpret_cast<std::byte*>(args.output);
  const auto run = [&](int64_t first, int64_t count, const KernelContext& own) {
    ConvolutionForward part = args;
    part.counts = nullptr;  // of the whole result, by the caller
    part.shape = with_outputs(s, count);
    part.weights += first * (s.weights_count() / s.out_channels);
    if (part.bias != nullptr) part.bias += first;
    std::byte* result = own.scratch.data();
    if (args.sums != nullptr) part.sums = reinterpret_cast<int32_t*>(result);
    if (args.output != nullptr) part.output = reinterpret_cast<int8_t*>(result);
    const size_t used = aligned_bytes(part.shape.output_count() * 4);
    const WideStatistics found =
        convolution_forward(below, part, {own.pool, own.scratch.subspan(used)});
    copy_rows(*own.pool, result, count * element, all + first * element, s.out_channels * element,
              count * element, s.output_count() / s.out_channels);
    return found;
  };
  return for_each_slice(context, s.out_channels, channels, forward_bytes(below, s, channels), run);
}

size_t sliced_forward_scratch_bytes(ConvolutionRows below, const ConvolutionShape& shape,
                                    int64_t channels, int threads) noexcept {
  return threads_bytes(forward_bytes(below, shape, channels), shape.out_channels, channels,
                       threads);
}

WideStatistics sliced_grad_input(ConvolutionRows below, const ConvolutionGradInput& args,
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
    const WideStatistics found =
        convolution_grad_input(below, part, {own.pool, own.scratch.subspan(used)});
    copy_rows(*own.pool, result, count * element, all + first * element, s.in_channels * element,
              count * element, s.input_count() / s.in_channels);
    return found;
  };
  return for_each_slice(context, s.in_channels, channels,
                        grad_input_bytes(below, s, channels, args.grad_output.bits), run);
}

size_t sliced_grad_input_scratch_bytes(ConvolutionRows below, const ConvolutionShape& shape,
                                       int64_t channels, int bits, int threads) noexcept {
  return threads_bytes(grad_input_bytes(below, shape, channels, bits), shape.in_channels, channels,
                       threads);
}

namespace {

int64_t slice_of(const ConvolutionWork& work) {
  if (work.pass == ConvolutionPass::kGradWeights) return 0;
  return work.pass == ConvolutionPass::kForward ? forward_slice(work.shape)
                                                : grad_input_slice(work.shape);
}

const char* declines(const ConvolutionWork& work) noexcept {
  if (work.pass == ConvolutionPass::kGradWeights) return "takes no gradient of weights";
  return slice_of(work) == 0 ? "takes only many weights that meet few pixels" : nullptr;
}

ConvolutionWork part(const ConvolutionWork& work) noexcept {
  const int64_t channels = slice_of(work);
  return {work.pass,
          work.pass == ConvolutionPass::kForward ? with_outputs(work.shape, channels)
                                                 : with_inputs(work.shape, channels),
          work.bits};
}

WideStatistics forward(const ConvolutionForward& args, ConvolutionRows below,
                       const KernelContext& context) noexcept {
  return sliced_forward(below, args, forward_slice(args.shape), context);
}

size_t forward_scratch_bytes(const ConvolutionShape& shape, int threads,
                             ConvolutionRows below) noexcept {
  return sliced_forward_scratch_bytes(below, shape, forward_slice(shape), threads);
}

WideStatistics grad_input(const ConvolutionGradInput& args, ConvolutionRows below,
                          const KernelContext& context) noexcept {
  return sliced_grad_input(below, args, grad_input_slice(args.shape), context);
}

size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int bits, int threads,
                                ConvolutionRows below) noexcept {
  return sliced_grad_input_scratch_bytes(below, shape, grad_input_slice(shape), bits, threads);
}

}  // namespace

const ConvolutionKernels kConvolutionSliced = {
    .name = "convolution_sliced",
    .needs = kNeedsNothing,
    .declines = declines,
    .part = part,
    .forward = forward,
    .forward_scratch_bytes = forward_scratch_bytes,
    .grad_input = grad_input,
    .grad_input_scratch_bytes = grad_input_scratch_bytes,
    .grad_weights = nullptr,
    .grad_weights_scratch_bytes = nullptr,
};

}  // namespace mantissa::kernels
