#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_kernels.h"

namespace mantissa::kernels {

const ConvolutionKernels kConvolutionAvx512Vnni = {
    .name = "convolution_avx512vnni",
    .isa = Isa::kAvx512Vnni,
    .forward = convolution_avx512vnni::forward,
    .forward_scratch_bytes = convolution_avx512vnni::forward_scratch_bytes,
    .grad_input = convolution_avx512vnni::grad_input,
    .grad_input_scratch_bytes = convolution_avx512vnni::grad_input_scratch_bytes,
    .grad_weights = convolution_avx512vnni::grad_weights,
    .grad_weights_scratch_bytes = convolution_avx512vnni::grad_weights_scratch_bytes,
};

}  // namespace mantissa::kernels
#endif
