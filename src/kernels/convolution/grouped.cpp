// Convolution in groups of channels: each group's channels are gathered, convolved and scattered,
// one group after another.
#include "kernels/common/exact_sums.h"
#include "kernels/convolution/choice.h"
#include "kernels/convolution/pieces.h"

namespace mantissa::kernels {
namespace {

const char* declines(const ConvolutionWork& work) noexcept {
  const ConvolutionShape& s = work.shape;
  if (s.groups == 1) return "takes only several groups";
  if (s.group_in_channels() == 1 && s.group_out_channels() == 1) {
    return "a group of one channel fills no vector";
  }
  return s.dilation > 1 ? "takes no dilation" : nullptr;
}

ConvolutionShape one_group(ConvolutionShape s) {
  s.in_channels = s.group_in_channels();
  s.out_channels = s.group_out_channels();
  s.groups = 1;
  return s;
}

std::vector<ConvolutionWork> parts(const ConvolutionWork& work) {
  return {{work.pass, one_group(work.shape), work.bits, work.sums}};
}

constexpr int64_t kSumBytes = sizeof(int32_t);

// One group's input, or gradient of it, and output, or gradient of it, before the dense scratch.
struct Scratch {
  std::byte *input, *output;
  KernelContext dense;

  Scratch(const KernelContext& context, int64_t input_bytes, int64_t output_bytes)
      : input(context.scratch.data()), output(input + aligned_bytes(input_bytes)) {
    const size_t used = aligned_bytes(input_bytes) + aligned_bytes(output_bytes);
    dense = {context.pool, context.scratch.subspan(used)};
  }
};

// Channels of `pixels` pixels, as bytes: rows of `step` bytes; `width` of these belong to a group.
struct Channels {
  int64_t pixels, step, width;

  Channels(int64_t count, int64_t channels, int64_t groups, int64_t bytes)
      : pixels(count / channels), step(channels * bytes), width(step / groups) {}

  const std::byte* gather(ThreadPool& pool, const void* all, int64_t group, std::byte* to) const {
    copy_rows(pool, static_cast<const std::byte*>(all) + group * width, step, to, width, width,
              pixels);
    return to;
  }
  void scatter(ThreadPool& pool, const std::byte* from, int64_t group, void* all) const {
    copy_rows(pool, from, width, static_cast<std::byte*>(all) + group * width, step, width, pixels);
  }
};

Channels input_channels(const ConvolutionShape& s, int64_t bytes) {
  return {s.input_count(), s.in_channels, s.groups, bytes};
}

Channels output_channels(const ConvolutionShape& s, int64_t bytes) {
  return {s.output_count(), s.out_channels, s.groups, bytes};
}

size_t group_bytes(const ConvolutionShape& s, int64_t input_bytes, int64_t output_bytes) {
  return aligned_bytes(s.input_count() / s.groups * input_bytes) +
         aligned_bytes(s.output_count() / s.groups * output_bytes);
}

WideStatistics forward(const ConvolutionForward& args, ConvolutionParts groups,
                       const KernelContext& context) noexcept {
  const ConvolutionShape group = one_group(args.shape);
  const int64_t bytes = args.sums != nullptr ? kSumBytes : 1;
  const Channels input = input_channels(args.shape, 1), output = output_channels(args.shape, bytes);
  const Scratch scratch(context, group.input_count(), group.output_count() * bytes);
  void* all = args.sums != nullptr ? static_cast<void*>(args.sums) : args.output;
  WideStatistics total;
  for (int64_t g = 0; g < args.shape.groups; ++g) {
    ConvolutionForward part = args;
    part.counts.written = nullptr;  // of the whole result, by the caller
    part.shape = group;
    part.input =
        reinterpret_cast<const int8_t*>(input.gather(*context.pool, args.input, g, scratch.input));
    part.weights = args.weights + g * group.weights_count();
    if (args.bias != nullptr) part.bias = args.bias + g * group.out_channels;
    if (args.sums != nullptr) part.sums = reinterpret_cast<int32_t*>(scratch.output);
    if (args.output != nullptr) part.output = reinterpret_cast<int8_t*>(scratch.output);
    total += groups[0].forward(part, scratch.dense);
    output.scatter(*context.pool, scratch.output, g, all);
  }
  return total;
}

size_t forward_scratch_bytes(const ConvolutionShape& shape, int threads,
                             ConvolutionParts groups) noexcept {
  return group_bytes(shape, 1, kSumBytes) + groups[0].scratch_bytes(threads);
}

WideStatistics grad_input(const ConvolutionGradInput& args, ConvolutionParts groups,
                          const KernelContext& context) noexcept {
  const ConvolutionShape group = one_group(args.shape);
  const bool writes_sums = args.sums != nullptr;
  const int64_t input_bytes = writes_sums ? kSumBytes : gradient_bytes(args.grad_input.bits);
  const int64_t output_bytes = gradient_bytes(args.grad_output.bits);
  void* const all = writes_sums ? static_cast<void*>(args.sums) : args.grad_input.data;
  const Channels input = input_channels(args.shape, input_bytes);
  const Channels output = output_channels(args.shape, output_bytes);
  const Scratch scratch(context, group.input_count() * input_bytes,
                        group.output_count() * output_bytes);
  WideStatistics total;
  for (int64_t g = 0; g < args.shape.groups; ++g) {
    ConvolutionGradInput part = args;
    part.counts.written = nullptr;  // of the whole result, by the caller
    part.shape = group;
    part.grad_output.data = output.gather(*context.pool, args.grad_output.data, g, scratch.output);
    part.weights = args.weights + g * group.weights_count();
    part.grad_input.data = writes_sums ? nullptr : scratch.input;
    part.sums = writes_sums ? reinterpret_cast<int32_t*>(scratch.input) : nullptr;
    total += groups[0].grad_input(part, scratch.dense);
    input.scatter(*context.pool, scratch.input, g, all);
  }
  return total;
}

size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int bits, int threads,
                                ConvolutionParts groups) noexcept {
  // The gradient of the input may have 16 bits although the gradient of the output has fewer.
  const int64_t input_bytes = groups[0].work.sums ? kSumBytes : gradient_bytes(16);
  return group_bytes(shape, input_bytes, gradient_bytes(bits)) +
         groups[0].scratch_bytes(threads);
}

void grad_weights(const ConvolutionGradWeights& args, ConvolutionParts groups,
                  const KernelContext& context) noexcept {
  const ConvolutionShape group = one_group(args.shape);
  const int64_t bytes = gradient_bytes(args.grad_output.bits);
  const Channels input = input_channels(args.shape, 1), output = output_channels(args.shape, bytes);
  const Scratch scratch(context, group.input_count(), group.output_count() * bytes);
  for (int64_t g = 0; g < args.shape.groups; ++g) {
    ConvolutionGradWeights part = args;
    part.shape = group;
    part.input =
        reinterpret_cast<const int8_t*>(input.gather(*context.pool, args.input, g, scratch.input));
    part.grad_output.data = output.gather(*context.pool, args.grad_output.data, g, scratch.output);
    part.totals = args.totals.from(g * group.weights_count());
    groups[0].grad_weights(part, scratch.dense);
  }
}

size_t grad_weights_scratch_bytes(const ConvolutionShape& shape, int bits, int threads,
                                  ConvolutionParts groups) noexcept {
  return group_bytes(shape, 1, gradient_bytes(bits)) + groups[0].scratch_bytes(threads);
}

}  // namespace

const ConvolutionKernels kConvolutionGrouped = {
    .name = "convolution_grouped",
    .needs = kNeedsNothing,
    .declines = declines,
    .parts = parts,
    .forward = forward,
    .forward_scratch_bytes = forward_scratch_bytes,
    .grad_input = grad_input,
    .grad_input_scratch_bytes = grad_input_scratch_bytes,
    .grad_weights = grad_weights,
    .grad_weights_scratch_bytes = grad_weights_scratch_bytes,
};

}  // namespace mantissa::kernels
