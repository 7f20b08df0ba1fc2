// The rows of the kernel table.
#include "kernels/convolution/kernel_row.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise/passes.h"

namespace mantissa::kernels {

#if defined(__x86_64__)
const ConvolutionKernels kDepthwiseAvx2 =
    kernels_of<depthwise::kAvx2Loops>("depthwise_avx2", kNeedsAvx2, depthwise::declines);
const ConvolutionKernels kDepthwiseAvx512Vnni = kernels_of<depthwise::kAvx512VnniLoops>(
    "depthwise_avx512vnni", kNeedsAvx512Vnni, depthwise::declines);
#endif

}  // namespace mantissa::kernels
