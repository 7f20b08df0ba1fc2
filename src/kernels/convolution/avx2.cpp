// The rows of the kernel table.
#if defined(__x86_64__)
#include "kernels/convolution/avx2_kernels.h"
#include "kernels/convolution/kernel_row.h"

namespace mantissa::kernels {

const ConvolutionKernels kConvolutionAvx2 = kernels_of<convolution_avx2::kAvx2Tiles>(
    "convolution_avx2", kNeedsAvx2, declines_all_but_dense);
const ConvolutionKernels kConvolutionAvxVnni = kernels_of<convolution_avx2::kAvxVnniTiles>(
    "convolution_avxvnni", kNeedsAvxVnni, declines_all_but_dense);

}  // namespace mantissa::kernels
#endif
