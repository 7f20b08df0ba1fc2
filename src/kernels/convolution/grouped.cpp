#include "kernels/convolution/grouped.h"

#include "kernels/convolution/pieces.h"
#include "kernels/exact_sums.h"

namespace mantissa::kernels {
namespace {

ConvolutionShape one_group(ConvolutionShape s) {
  s.in_channels = s.group_in_channels();
  s.out_channels = s.group_out_channels();
  s.groups = 1;
  return s;
}

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

// Channels of `pixels` pixels, as bytes: rows of `step` bytes of which `width` belong to a group.
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

}  // namespace

WideStatistics grouped_forward(const ConvolutionKernels& dense, const ConvolutionForward& args,
                               const KernelContext& context) noexcept {
  const ConvolutionShape group = one_group(args.shape);
  const int64_t bytes = args.wide != nullptr ? 4 : 1;
  const Channels input = input_channels(args.shape, 1), output = output_channels(args.shape, bytes);
  const Scratch scratch(context, group.input_count(), group.output_count() * bytes);
  void* all = args.wide != nullptr ? static_cast<void*>(args.wide) : args.narrow;
  WideStatistics total;
  for (int64_t g = 0; g < args.shape.groups; ++g) {
    ConvolutionForward part = args;
    part.counts = nullptr;  // of the whole result, by the caller
    part.shape = group;
    part.input =
        reinterpret_cast<const int8_t*>(input.gather(*context.pool, args.input, g, scratch.input));
    part.weights = args.weights + g * group.weights_count();
    if (args.bias != nullptr) part.bias = args.bias + g * group.out_channels;
    if (args.wide != nullptr) part.wide = reinterpret_cast<int32_t*>(scratch.output);
    if (args.narrow != nullptr) part.narrow = reinterpret_cast<int8_t*>(scratch.output);
    total += dense.forward(part, scratch.dense);
    output.scatter(*context.pool, scratch.output, g, all);
  }
  return total;
}

size_t grouped_forward_scratch_bytes(const ConvolutionKernels& dense, const ConvolutionShape& shape,
                                     int threads) noexcept {
  return group_bytes(shape, 1, 4) + dense.forward_scratch_bytes(one_group(shape), threads);
}

WideStatistics grouped_grad_input(const ConvolutionKernels& dense, const ConvolutionGradInput& args,
                                  const KernelContext& context) noexcept {
  const ConvolutionShape group = one_group(args.shape);
  const int64_t input_bytes = gradient_bytes(args.grad_input.bits);
  const int64_t output_bytes = gradient_bytes(args.grad_output.bits);
  const Channels input = input_channels(args.shape, input_bytes);
  const Channels output = output_channels(args.shape, output_bytes);
  const Scratch scratch(context, group.input_count() * input_bytes,
                        group.output_count() * output_bytes);
  WideStatistics total;
  for (int64_t g = 0; g < args.shape.groups; ++g) {
    ConvolutionGradInput part = args;
    part.counts = nullptr;  // of the whole result, by the caller
    part.shape = group;
    part.grad_output.data = output.gather(*context.pool, args.grad_output.data, g, scratch.output);
    part.weights = args.weights + g * group.weights_count();
    part.grad_input.data = scratch.input;
    total += dense.grad_input(part, scratch.dense);
    input.scatter(*context.pool, scratch.input, g, args.grad_input.data);
  }
  return total;
}

size_t grouped_grad_input_scratch_bytes(const ConvolutionKernels& dense,
                                        const ConvolutionShape& shape, int bits,
                                        int threads) noexcept {
  // The gradient of the input may have 16 bits where that of the output has fewer.
  return group_bytes(shape, gradient_bytes(16), gradient_bytes(bits)) +
         dense.grad_input_scratch_bytes(one_group(shape), bits, threads);
}

void grouped_grad_weights(const ConvolutionKernels& dense, const ConvolutionGradWeights& args,
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
    dense.grad_weights(part, scratch.dense);
  }
}

size_t grouped_grad_weights_scratch_bytes(const ConvolutionKernels& dense,
                                          const ConvolutionShape& shape, int bits,
                                          int threads) noexcept {
  return group_bytes(shape, 1, gradient_bytes(bits)) +
         dense.grad_weights_scratch_bytes(one_group(shape), bits, threads);
}

}  // namespace mantissa::kernels
