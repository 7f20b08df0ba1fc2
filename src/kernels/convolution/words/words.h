// Drivers of the three convolutions on products of int16 (words), for one group of channels. They
// contain no instruction set's code: tiles, packing and rounding come with an InstructionSet.
#pragma once

#include "kernels/convolution/convolution.h"
#include "kernels/convolution/words/grad_weights.h"
#include "kernels/convolution/words/pack.h"
#include "kernels/convolution/words/store.h"
#include "kernels/convolution/words/tile.h"

namespace mantissa::kernels::convolution_words {

struct InstructionSet {
  const Tiles& tiles;
  const DotPacking& dot;
  const Stores& stores;
  const GradWeightsPacking& grad_weights;
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

}  // namespace mantissa::kernels::convolution_words
