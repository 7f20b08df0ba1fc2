#include "kernels/convolution/sliced.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/system/thread_pool.h"
#include "kernels/common/exact_sums.h"
#include "kernels/convolution/choice.h"
#include "kernels/convolution/pieces.h"

namespace mantissa::kernels {
namespace {

// How many of `all` channels have weights of about the size of a core's cache, or of the pixels,
// which each slice reads anew; fewer if threads would have too few slices.
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

int64_t slice_of(const ConvolutionWork& work) {
  if (work.pass == ConvolutionPass::kGradWeights) return 0;
  return work.pass == ConvolutionPass::kForward ? forward_slice(work.shape)
                                                : grad_input_slice(work.shape);
}

const char* declines(const ConvolutionWork& work) noexcept {
  if (work.pass == ConvolutionPass::kGradWeights) return "takes no gradient of weights";
  if (work.sums) return "leaves no sums of grad_input";
  return slice_of(work) == 0 ? "takes only many weights that meet few pixels" : nullptr;
}

std::vector<ConvolutionWork> parts(const ConvolutionWork& work) {
  return slices(work, slice_of(work));
}

// Calls run(first, choice, context, worker) for the slices of `all` channels, each of `channels`
// except the last. Each call has this many bytes of scratch and no other thread. Returns the
// combined statistics.
template <typename Run>
WideStatistics for_each_slice(const KernelContext& context, ConvolutionParts slices, int64_t all,
                              int64_t channels, size_t scratch_bytes, const Run& run) {
  std::array<WideStatistics, kMaximumParts> partial;
  const int64_t count = divide_up(all, channels);
  const int64_t workers = std::min({count, int64_t{context.pool->size()}, kMaximumParts});
  std::atomic<int64_t> next{0};
  context.pool->parallel_for(workers, [&](int64_t worker, int) {
    ThreadPool alone(1);
    const KernelContext own{
        &alone,
        context.scratch.subspan(static_cast<size_t>(worker) * scratch_bytes, scratch_bytes)};
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      const bool is_whole = (i + 1) * channels <= all;
      partial[worker] += run(i * channels, is_whole ? slices.front() : slices.back(), own, worker);
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

// The most bytes(slice) that a slice needs: the narrower one may take more.
template <typename Bytes>
size_t most_bytes(ConvolutionParts slices, const Bytes& bytes) {
  return std::max(bytes(slices.front()), bytes(slices.back()));
}

// Scratch of one slice: its result, then the scratch of the row that takes it.
size_t forward_bytes(ConvolutionParts slices) {
  return most_bytes(slices, [](const ConvolutionChoice& slice) {
    return aligned_bytes(slice.work.shape.output_count() * 4) +
           aligned_bytes(static_cast<int64_t>(slice.scratch_bytes(1)));
  });
}

// Scratch of one slice: its weights, its result, then the scratch of the row that takes it.
size_t grad_input_bytes(ConvolutionParts slices) {
  return most_bytes(slices, [](const ConvolutionChoice& slice) {
    return aligned_bytes(slice.work.shape.weights_count()) +
           aligned_bytes(slice.work.shape.input_count() * 2) +
           aligned_bytes(static_cast<int64_t>(slice.scratch_bytes(1)));
  });
}

WideStatistics forward(const ConvolutionForward& args, ConvolutionParts slices,
                       const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t element = args.sums != nullptr ? 4 : 1;
  auto* all = args.sums != nullptr ? reinterpret_cast<std::byte*>(args.sums)
                                   : reinterpret_cast<std::byte*>(args.output);
  const auto run = [&](int64_t first, const ConvolutionChoice& slice, const KernelContext& own,
                       int64_t worker) {
    ConvolutionForward part = args;
    part.counts = {nullptr, args.counts.wide_of(worker)};  // written: by the caller
    part.shape = slice.work.shape;
    part.weights += first * (s.weights_count() / s.out_channels);
    if (part.bias != nullptr) part.bias += first;
    std::byte* result = own.scratch.data();
    if (args.sums != nullptr) part.sums = reinterpret_cast<int32_t*>(result);
    if (args.output != nullptr) part.output = reinterpret_cast<int8_t*>(result);
    const size_t used = aligned_bytes(part.shape.output_count() * 4);
    const WideStatistics found = slice.forward(part, {own.pool, own.scratch.subspan(used)});
    const int64_t bytes = part.shape.out_channels * element;
    copy_rows(*own.pool, result, bytes, all + first * element, s.out_channels * element, bytes,
              s.output_count() / s.out_channels);
    return found;
  };
  return for_each_slice(context, slices, s.out_channels, slices[0].work.shape.out_channels,
                        forward_bytes(slices), run);
}

size_t forward_scratch_bytes(const ConvolutionShape& shape, int threads,
                             ConvolutionParts slices) noexcept {
  return threads_bytes(forward_bytes(slices), shape.out_channels, slices[0].work.shape.out_channels,
                       threads);
}

WideStatistics grad_input(const ConvolutionGradInput& args, ConvolutionParts slices,
                          const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t element = gradient_bytes(args.grad_input.bits);
  const auto* weights = reinterpret_cast<const std::byte*>(args.weights);
  auto* all = static_cast<std::byte*>(args.grad_input.data);
  const auto run = [&](int64_t first, const ConvolutionChoice& slice, const KernelContext& own,
                       int64_t worker) {
    ConvolutionGradInput part = args;
    part.counts = {nullptr, args.counts.wide_of(worker)};  // written: by the caller
    part.shape = slice.work.shape;
    const int64_t count = part.shape.in_channels;
    std::byte* own_weights = own.scratch.data();
    std::byte* result = own_weights + aligned_bytes(part.shape.weights_count());
    copy_rows(*own.pool, weights + first, s.in_channels, own_weights, count, count,
              s.weights_count() / s.in_channels);
    part.weights = reinterpret_cast<const int8_t*>(own_weights);
    part.grad_input.data = result;
    const size_t used =
        aligned_bytes(part.shape.weights_count()) + aligned_bytes(part.shape.input_count() * 2);
    const WideStatistics found = slice.grad_input(part, {own.pool, own.scratch.subspan(used)});
    copy_rows(*own.pool, result, count * element, all + first * element, s.in_channels * element,
              count * element, s.input_count() / s.in_channels);
    return found;
  };
  return for_each_slice(context, slices, s.in_channels, slices[0].work.shape.in_channels,
                        grad_input_bytes(slices), run);
}

size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int, int threads,
                                ConvolutionParts slices) noexcept {
  return threads_bytes(grad_input_bytes(slices), shape.in_channels,
                       slices[0].work.shape.in_channels, threads);
}

}  // namespace

int64_t forward_slice(const ConvolutionShape& shape) noexcept {
  return slice(shape, shape.out_channels);
}

int64_t grad_input_slice(const ConvolutionShape& shape) noexcept {
  return slice(shape, shape.in_channels);
}

std::vector<ConvolutionWork> slices(const ConvolutionWork& work, int64_t channels) {
  const bool forward = work.pass == ConvolutionPass::kForward;
  const int64_t all = forward ? work.shape.out_channels : work.shape.in_channels;
  const auto of = [&](int64_t count) -> ConvolutionWork {
    return {work.pass, forward ? with_outputs(work.shape, count) : with_inputs(work.shape, count),
            work.bits};
  };
  if (channels >= all) return {of(all)};
  if (all % channels == 0) return {of(channels)};
  return {of(channels), of(all % channels)};
}

const ConvolutionKernels kConvolutionSliced = {
    .name = "convolution_sliced",
    .needs = kNeedsNothing,
    .declines = declines,
    .parts = parts,
    .forward = forward,
    .forward_scratch_bytes = forward_scratch_bytes,
    .grad_input = grad_input,
    .grad_input_scratch_bytes = grad_input_scratch_bytes,
    .grad_weights = nullptr,
    .grad_weights_scratch_bytes = nullptr,
};

}  // namespace mantissa::kernels
