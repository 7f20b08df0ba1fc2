// The functions behind kConvolutionAvx512Vnni and kConvolutionAmx. One group of channels.
#pragma once

#include "kernels/convolution/avx512vnni_grad_weights.h"
#include "kernels/convolution/avx512vnni_tile.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_avx512vnni {

// What multiplies in one instruction set.
struct AllTiles {
  const Tiles& dot;
  const GradWeightsTiles& grad_weights;
};

WideStatistics forward(const AllTiles&, const ConvolutionForward&, const KernelContext&) noexcept;
size_t forward_scratch_bytes(const AllTiles&, const ConvolutionShape&, int threads) noexcept;
WideStatistics grad_input(const AllTiles&, const ConvolutionGradInput&,
                          const KernelContext&) noexcept;
size_t grad_input_scratch_bytes(const AllTiles&, const ConvolutionShape&, int bits,
                                int threads) noexcept;
void grad_weights(const AllTiles&, const ConvolutionGradWeights&, const KernelContext&) noexcept;
size_t grad_weights_scratch_bytes(const AllTiles&, const ConvolutionShape&, int bits,
                                  int threads) noexcept;

}  // namespace mantissa::kernels::convolution_avx512vnni
