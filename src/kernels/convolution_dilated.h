// Convolution with dilation by the kernels for none: output pixels whose taps fall on the same
// pixels modulo the dilation (a phase) are an ordinary convolution of these pixels alone, with the
// kernel's own taps. Each phase is gathered, convolved and scattered, one after another, so no
// multiply-add is wasted. Bit-equal to the reference.
#pragma once

#include "kernels/kernel_table.h"

namespace mantissa::kernels {

// As the functions of convolution_choice.h, for shapes with dilation > 1; they run each phase.
WideStatistics dilated_forward(const KernelTable& table, const ConvolutionForward& args,
                               const KernelContext& context) noexcept;
size_t dilated_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                     int threads) noexcept;

WideStatistics dilated_grad_input(const KernelTable& table, const ConvolutionGradInput& args,
                                  const KernelContext& context) noexcept;
size_t dilated_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                        int bits, int threads) noexcept;

void dilated_grad_weights(const KernelTable& table, const ConvolutionGradWeights& args,
                          const KernelContext& context) noexcept;
size_t dilated_grad_weights_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                          int bits, int threads) noexcept;

}  // namespace mantissa::kernels
