// Makes a row of the kernel table of a driver: the functions of a namespace, given the tiles or
// loops of one instruction set.
#pragma once

#include "kernels/convolution/choice.h"

namespace mantissa::kernels {

// Why dense drivers do not take the work, or null.
constexpr const char* declines_all_but_dense(const ConvolutionWork& work) noexcept {
  if (work.shape.groups > 1) return "takes no groups of channels";
  if (work.shape.dilation > 1) return "takes no dilation";
  if (work.shape.stride_height != work.shape.stride_width) return "takes one stride for both axes";
  if (work.bits > 16) return "takes only gradients of up to 16 bits";
  return nullptr;
}

// Calls forward(kOwn, ...) and so on of the namespace that kOwn's type is of.
template <const auto& kOwn>
constexpr ConvolutionKernels kernels_of(const char* name, Features needs,
                                        decltype(ConvolutionKernels::declines) declines) {
  return {
      .name = name,
      .needs = needs,
      .declines = declines,
      .parts = nullptr,
      .forward = [](const ConvolutionForward& args, ConvolutionParts,
                    const KernelContext& context) noexcept { return forward(kOwn, args, context); },
      .forward_scratch_bytes =
          [](const ConvolutionShape& shape, int threads, ConvolutionParts) noexcept {
            return forward_scratch_bytes(kOwn, shape, threads);
          },
      .grad_input =
          [](const ConvolutionGradInput& args, ConvolutionParts,
             const KernelContext& context) noexcept { return grad_input(kOwn, args, context); },
      .grad_input_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads, ConvolutionParts) noexcept {
            return grad_input_scratch_bytes(kOwn, shape, bits, threads);
          },
      .grad_weights =
          [](const ConvolutionGradWeights& args, ConvolutionParts,
             const KernelContext& context) noexcept { grad_weights(kOwn, args, context); },
      .grad_weights_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads, ConvolutionParts) noexcept {
            return grad_weights_scratch_bytes(kOwn, shape, bits, threads);
          },
  };
}

}  // namespace mantissa::kernels
