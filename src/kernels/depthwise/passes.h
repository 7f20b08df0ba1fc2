// The three passes of a depthwise convolution, over any instruction set's loops.
#pragma once

#include <cstddef>

#include "kernels/convolution/convolution.h"
#include "kernels/depthwise/row_loops.h"

namespace mantissa::kernels::depthwise {

WideStatistics forward(const RowLoops& loops, const ConvolutionForward& args,
                       const KernelContext& context) noexcept;
size_t forward_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape,
                             int threads) noexcept;

WideStatistics grad_input(const RowLoops& loops, const ConvolutionGradInput& args,
                          const KernelContext& context) noexcept;
size_t grad_input_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape, int bits,
                                int threads) noexcept;

void grad_weights(const RowLoops& loops, const ConvolutionGradWeights& args,
                  const KernelContext& context) noexcept;
size_t grad_weights_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape,
                                  int threads) noexcept;

// The row of the kernel table that runs the passes with these loops.
template <const RowLoops& kLoops>
constexpr ConvolutionKernels kernels_of(const char* name, Isa isa) {
  return {
      .name = name,
      .isa = isa,
      .forward =
          [](const ConvolutionForward& args, const KernelContext& context) noexcept {
            return forward(kLoops, args, context);
          },
      .forward_scratch_bytes =
          [](const ConvolutionShape& shape, int threads) noexcept {
            return forward_scratch_bytes(kLoops, shape, threads);
          },
      .grad_input =
          [](const ConvolutionGradInput& args, const KernelContext& context) noexcept {
            return grad_input(kLoops, args, context);
          },
      .grad_input_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads) noexcept {
            return grad_input_scratch_bytes(kLoops, shape, bits, threads);
          },
      .grad_weights =
          [](const ConvolutionGradWeights& args, const KernelContext& context) noexcept {
            grad_weights(kLoops, args, context);
          },
      .grad_weights_scratch_bytes =
          [](const ConvolutionShape& shape, int, int threads) noexcept {
            return grad_weights_scratch_bytes(kLoops, shape, threads);
          },
  };
}

}  // namespace mantissa::kernels::depthwise
