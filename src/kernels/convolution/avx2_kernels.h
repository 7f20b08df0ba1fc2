// The functions behind kConvolutionAvx2 and kConvolutionAvxVnni. One group of channels.
#pragma once

#include "kernels/convolution/avx2_tile.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_avx2 {

WideStatistics forward(const Tiles&, const ConvolutionForward&, const KernelContext&) noexcept;
size_t forward_scratch_bytes(const Tiles&, const ConvolutionShape&, int threads) noexcept;
WideStatistics grad_input(const Tiles&, const ConvolutionGradInput&, const KernelContext&) noexcept;
size_t grad_input_scratch_bytes(const Tiles&, const ConvolutionShape&, int bits,
                                int threads) noexcept;
void grad_weights(const Tiles&, const ConvolutionGradWeights&, const KernelContext&) noexcept;
size_t grad_weights_scratch_bytes(const Tiles&, const ConvolutionShape&, int bits,
                                  int threads) noexcept;

}  // namespace mantissa::kernels::convolution_avx2
