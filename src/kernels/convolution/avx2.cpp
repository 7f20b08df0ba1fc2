#if defined(__x86_64__)
#include "kernels/convolution/avx2_kernels.h"

namespace mantissa::kernels {

const ConvolutionKernels kConvolutionAvx2 = {
    .name = "convolution_avx2",
    .isa = Isa::kAvx2,
    .forward = convolution_avx2::forward,
    .forward_scratch_bytes = convolution_avx2::forward_scratch_bytes,
    .grad_input = convolution_avx2::grad_input,
    .grad_input_scratch_bytes = convolution_avx2::grad_input_scratch_bytes,
    .grad_weights = convolution_avx2::grad_weights,
    .grad_weights_scratch_bytes = convolution_avx2::grad_weights_scratch_bytes,
};

}  // namespace mantissa::kernels
#endif
