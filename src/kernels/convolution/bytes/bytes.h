// Drivers of the three convolutions on products of bytes, unsigned by signed, for one group of
// channels. They contain no instruction set's code: tiles and packing come with an InstructionSet.
#pragma once

#include "kernels/convolution/bytes/grad_weights.h"
#include "kernels/convolution/bytes/pack.h"
#include "kernels/convolution/bytes/tile.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_bytes {

struct InstructionSet {
  const Tiles& tiles;
  const DotPacking& dot;
  const GradWeightsTiles& grad_weights;
};

WideStatistics forward(const InstructionSet&, const ConvolutionForward&,
                       const KernelContext&) noexcept;
size_t forward_scratch_bytes(const InstructionSet&, const ConvolutionShape&, int threads) noexcept;
WideStatistics grad_input(const InstructionSet&, const ConvolutionGradInput&,
                          const KernelContext&) noexcept;
size_t grad_input_scratch_bytes(const InstructionSet&, const ConvolutionShape&, int bits,
                                int threads) noexcept;
void grad_weights(const InstructionSet&, const ConvolutionGradWeights&,
                  const KernelContext&) noexcept;
size_t grad_weights_scratch_bytes(const InstructionSet&, const ConvolutionShape&, int bits,
                                  int threads) noexcept;

}  // namespace mantissa::kernels::convolution_bytes
