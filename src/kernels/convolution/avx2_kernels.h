// The functions behind kConvolutionAvx2. One group of channels.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_avx2 {

WideStatistics forward(const ConvolutionForward&, const KernelContext&) noexcept;
size_t forward_scratch_bytes(const ConvolutionShape&, int threads) noexcept;
WideStatistics grad_input(const ConvolutionGradInput&, const KernelContext&) noexcept;
size_t grad_input_scratch_bytes(const ConvolutionShape&, int bits, int threads) noexcept;
void grad_weights(const ConvolutionGradWeights&, const KernelContext&) noexcept;
size_t grad_weights_scratch_bytes(const ConvolutionShape&, int bits, int threads) noexcept;

}  // namespace mantissa::kernels::convolution_avx2
