// Convolution by any row, a slice of the result's channels at a time: a row packs all weights that
// it is given, and where these are large and the pixels few (linear layers on small batches), that
// takes as much memory as they and longer than the products. A slice's stay in a core's cache. Each
// thread takes slices of its own. Bit-equal to the row.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// Channels of a slice of the forward pass (of O) or of grad_input (of C); 0: the row is given all.
// Does not depend on the threads, of which there may be fewer than were planned for.
int64_t forward_slice(const ConvolutionShape& shape) noexcept;
int64_t grad_input_slice(const ConvolutionShape& shape) noexcept;

// As the functions of ConvolutionKernels, in one group, `channels` of the result at a time.
WideStatistics sliced_forward(const ConvolutionKernels& dense, const ConvolutionForward& args,
                              int64_t channels, const KernelContext& context) noexcept;
size_t sliced_forward_scratch_bytes(const ConvolutionKernels& dense, const ConvolutionShape& shape,
                                    int64_t channels, int threads) noexcept;

WideStatistics sliced_grad_input(const ConvolutionKernels& dense, const ConvolutionGradInput& args,
                                 int64_t channels, const KernelContext& context) noexcept;
size_t sliced_grad_input_scratch_bytes(const ConvolutionKernels& dense,
                                       const ConvolutionShape& shape, int64_t channels, int bits,
                                       int threads) noexcept;

}  // namespace mantissa::kernels
