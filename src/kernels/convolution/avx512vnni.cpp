// The rows of the kernel table.
#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_kernels.h"
#include "kernels/convolution/kernel_row.h"

namespace mantissa::kernels {
namespace convolution_avx512vnni {
namespace {

constexpr AllTiles kAvx512Vnni = {kAvx512VnniTiles, kAvx512VnniGradWeightsTiles};
constexpr AllTiles kAmx = {kAmxTiles, kAmxGradWeightsTiles};

}  // namespace
}  // namespace convolution_avx512vnni

const ConvolutionKernels kConvolutionAvx512Vnni = kernels_of<convolution_avx512vnni::kAvx512Vnni>(
    "convolution_avx512vnni", kNeedsAvx512Vnni, declines_all_but_dense);
const ConvolutionKernels kConvolutionAmx =
    kernels_of<convolution_avx512vnni::kAmx>("convolution_amx", kNeedsAmx, declines_all_but_dense);

}  // namespace mantissa::kernels
#endif
