// Convolution of a slice of the result's channels at a time. A row packs all weights that it is
// given: where these are large and the pixels few (linear layers on small batches), that takes as
// much memory as they and longer than the products. The weights of a slice stay in a core's cache.
// Each thread takes slices of its own.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// Channels of a slice of the forward pass (of O) or of grad_input (of C); 0: slices do not pay.
// Does not depend on the threads: there may be fewer than planned.
int64_t forward_slice(const ConvolutionShape& shape) noexcept;
int64_t grad_input_slice(const ConvolutionShape& shape) noexcept;

// As the functions of ConvolutionKernels, for one group, `channels` of the result at a time. The
// best of the rows `below` takes each slice.
WideStatistics sliced_forward(ConvolutionRows below, const ConvolutionForward& args,
                              int64_t channels, const KernelContext& context) noexcept;
size_t sliced_forward_scratch_bytes(ConvolutionRows below, const ConvolutionShape& shape,
                                    int64_t channels, int threads) noexcept;

WideStatistics sliced_grad_input(ConvolutionRows below, const ConvolutionGradInput& args,
                                 int64_t channels, const KernelContext& context) noexcept;
size_t sliced_grad_input_scratch_bytes(ConvolutionRows below, const ConvolutionShape& shape,
                                       int64_t channels, int bits, int threads) noexcept;

}  // namespace mantissa::kernels
