// grad_weights of a gradient with more than 16 bits, by the kernels for up to 16: the gradient is a
// sum of three digits in base 2^11, each a gradient by itself, whose exact sums are added before
// they are rounded. Bit-equal to rounding the exact sum once.
#pragma once

#include "kernels/kernel_table.h"

namespace mantissa::kernels {

// As convolution_grad_weights for grad_output of 17 to 32 bits. The exact sum must fit 2^61: at
// most 2^22 output pixels in the batch.
void wide_gradient_grad_weights(const KernelTable& table, const ConvolutionGradWeights& args,
                                const KernelContext& context) noexcept;
size_t wide_gradient_grad_weights_scratch_bytes(const KernelTable& table,
                                                const ConvolutionShape& shape,
                                                int threads) noexcept;

constexpr int64_t kMaximumWideGradientPixels = int64_t{1} << 22;

}  // namespace mantissa::kernels
