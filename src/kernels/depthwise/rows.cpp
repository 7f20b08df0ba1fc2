// The rows of the kernel table.
#include "kernels/convolution/kernel_row.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise/passes.h"

namespace mantissa::kernels {

#if defined(__x86_64__)
const ConvolutionKernels kDepthwiseAvx2 =
    kernels_of<depthwise::kRowLoopsAvx2>("depthwise_avx2", kNeedsAvx2, depthwise::declines);
const ConvolutionKernels kDepthwiseAvx512Vnni = kernels_of<depthwise::kRowLoopsAvx512Vnni>(
    "depthwise_avx512vnni", kNeedsAvx512Vnni, depthwise::declines);
#endif

}  // namespace mantissa::kernels
