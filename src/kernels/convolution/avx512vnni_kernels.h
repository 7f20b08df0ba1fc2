// The functions behind kConvolutionAvx512Vnni.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_avx512vnni {

WideStatistics forward(const ConvolutionForward&, const KernelContext&) noexcept;
size_t forward_scratch_bytes(const ConvolutionShape&, int threads) noexcept;
WideStatistics grad_input(const ConvolutionGradInput&, const KernelContext&) noexcept;
size_t grad_input_scratch_bytes(const ConvolutionShape&, int bits, int threads) noexcept;
void grad_weights(const ConvolutionGradWeights&, const KernelContext&) noexcept;
size_t grad_weights_scratch_bytes(const ConvolutionShape&, int bits, int threads) noexcept;

}  // namespace mantissa::kernels::convolution_avx512vnni
