// The three passes of a depthwise convolution, for the loops of any instruction set.
#pragma once

#include <cstddef>

#include "kernels/convolution/convolution.h"
#include "kernels/depthwise/row_loops.h"

namespace mantissa::kernels::depthwise {

// Why these passes do not take the work, or null.
const char* declines(const ConvolutionWork& work) noexcept;

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
size_t grad_weights_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape, int bits,
                                  int threads) noexcept;

}  // namespace mantissa::kernels::depthwise
