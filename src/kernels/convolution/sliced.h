// Convolution of a slice of the result's channels at a time. A row packs all weights that it is
// given. If the weights are large and the pixels few (linear layers on small batches), packing
// takes as much memory as the weights and longer than the products. The weights of a slice stay in
// a core's cache. Each thread takes slices of its own.
#pragma once

#include <vector>

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// Channels of a slice of the forward pass (of O) or of grad_input (of C); 0: slices do not pay.
// Does not depend on the threads: there may be fewer than planned.
int64_t forward_slice(const ConvolutionShape& shape) noexcept;
int64_t grad_input_slice(const ConvolutionShape& shape) noexcept;

// Slices of this many channels of the result, and the last one if it is narrower: the parts that
// kConvolutionSliced passes on.
std::vector<ConvolutionWork> slices(const ConvolutionWork& work, int64_t channels);

}  // namespace mantissa::kernels
