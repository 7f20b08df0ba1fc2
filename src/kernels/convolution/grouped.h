// Convolution in groups of channels by any row for one group: each group's channels are gathered,
// convolved and scattered, one group after another. Bit-equal to the reference.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// As the functions of ConvolutionKernels, for any number of groups; `dense` runs each of them.
WideStatistics grouped_forward(const ConvolutionKernels& dense, const ConvolutionForward& args,
                               const KernelContext& context) noexcept;
size_t grouped_forward_scratch_bytes(const ConvolutionKernels& dense, const ConvolutionShape& shape,
                                     int threads) noexcept;

WideStatistics grouped_grad_input(const ConvolutionKernels& dense, const ConvolutionGradInput& args,
                                  const KernelContext& context) noexcept;
size_t grouped_grad_input_scratch_bytes(const ConvolutionKernels& dense,
                                        const ConvolutionShape& shape, int bits,
                                        int threads) noexcept;

void grouped_grad_weights(const ConvolutionKernels& dense, const ConvolutionGradWeights& args,
                          const KernelContext& context) noexcept;
size_t grouped_grad_weights_scratch_bytes(const ConvolutionKernels& dense,
                                          const ConvolutionShape& shape, int bits,
                                          int threads) noexcept;

}  // namespace mantissa::kernels
