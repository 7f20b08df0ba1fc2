// Depthwise convolution and its two gradients: the contract of kernels/convolution/convolution.h,
// with groups == in_channels == out_channels. Other work these rows decline.
//
// Vectors run over channels. Rows of the input are read once into interleaved pairs of rows, which
// multiply-add instructions then read for every tap that meets them.
#pragma once

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

#if defined(__x86_64__)
extern const ConvolutionKernels kDepthwiseAvx2;
extern const ConvolutionKernels kDepthwiseAvx512Vnni;
#endif

}  // namespace mantissa::kernels
