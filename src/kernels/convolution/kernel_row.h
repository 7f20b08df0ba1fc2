// A row of the kernel table whose functions are those of a namespace, given what one instruction
// set has of its own: tiles, or loops.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// Calls forward(kOwn, ...) and so on of the namespace that kOwn's type is of.
template <const auto& kOwn>
constexpr ConvolutionKernels kernels_of(const char* name, Isa isa) {
  return {
      .name = name,
      .isa = isa,
      .forward = [](const ConvolutionForward& args,
                    const KernelContext& context) noexcept { return forward(kOwn, args, context); },
      .forward_scratch_bytes =
          [](const ConvolutionShape& shape, int threads) noexcept {
            return forward_scratch_bytes(kOwn, shape, threads);
          },
      .grad_input =
          [](const ConvolutionGradInput& args, const KernelContext& context) noexcept {
            return grad_input(kOwn, args, context);
          },
      .grad_input_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads) noexcept {
            return grad_input_scratch_bytes(kOwn, shape, bits, threads);
          },
      .grad_weights =
          [](const ConvolutionGradWeights& args, const KernelContext& context) noexcept {
            grad_weights(kOwn, args, context);
          },
      .grad_weights_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads) noexcept {
            return grad_weights_scratch_bytes(kOwn, shape, bits, threads);
          },
  };
}

}  // namespace mantissa::kernels
