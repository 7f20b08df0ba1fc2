// The scalar row: the reference, which takes all work and one thread.
#include "kernels/convolution/choice.h"

namespace mantissa::kernels {
namespace {

int64_t* sums_in(const KernelContext& context) {
  return reinterpret_cast<int64_t*>(context.scratch.data());
}

WideStatistics forward(const ConvolutionForward& args, ConvolutionParts,
                       const KernelContext&) noexcept {
  const RefConvolutionForward plain = {.input = args.input,
                                       .weights = args.weights,
                                       .bias = args.bias,
                                       .sums = args.sums,
                                       .output = args.output,
                                       .bits = args.bits,
                                       .shift = args.shift,
                                       .counts = args.counts.wide};
  return ref_convolution_forward(&args.shape, &plain);
}

WideStatistics grad_input(const ConvolutionGradInput& args, ConvolutionParts,
                          const KernelContext& context) noexcept {
  const RefConvolutionGradInput plain = {.grad_output = args.grad_output,
                                         .weights = args.weights,
                                         .shift = args.shift,
                                         .grad_input = args.grad_input,
                                         .scratch = sums_in(context),
                                         .counts = args.counts.wide,
                                         .sums = args.sums};
  return ref_convolution_grad_input(&args.shape, &plain);
}

void grad_weights(const ConvolutionGradWeights& args, ConvolutionParts,
                  const KernelContext& context) noexcept {
  const RefConvolutionGradWeights plain = {.input = args.input,
                                           .grad_output = args.grad_output,
                                           .shift = args.shift,
                                           .totals = args.totals,
                                           .adds = args.adds,
                                           .scratch = sums_in(context)};
  ref_convolution_grad_weights(&args.shape, &plain);
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
