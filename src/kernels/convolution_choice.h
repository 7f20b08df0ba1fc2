// Convolution for any number of groups, any dilation and gradients of up to 32 bits in
// grad_weights: dense, depthwise or group by group, phase by phase, digit by digit, whichever is
// asked for. What operators call; contracts in kernels/convolution/convolution.h.
#pragma once

#include "kernels/kernel_table.h"

namespace mantissa::kernels {

// The name of the row that takes the shape, as a whole, group by group or phase by phase.
const char* convolution_kernel_name(const KernelTable& table,
                                    const ConvolutionShape& shape) noexcept;

WideStatistics convolution_forward(const KernelTable& table, const ConvolutionForward& args,
                                   const KernelContext& context) noexcept;
size_t convolution_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                         int threads) noexcept;

WideStatistics convolution_grad_input(const KernelTable& table, const ConvolutionGradInput& args,
                                      const KernelContext& context) noexcept;
size_t convolution_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                            int bits, int threads) noexcept;

void convolution_grad_weights(const KernelTable& table, const ConvolutionGradWeights& args,
                              const KernelContext& context) noexcept;
size_t convolution_grad_weights_scratch_bytes(const KernelTable& table,
                                              const ConvolutionShape& shape, int bits,
                                              int threads) noexcept;

}  // namespace mantissa::kernels
