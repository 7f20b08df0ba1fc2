// The rows of the kernel table.
#include "kernels/convolution/kernel_row.h"

#if defined(__x86_64__)
#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx512vnni.h"

namespace mantissa::kernels {
namespace convolution_words::avx2 {
namespace {

constexpr InstructionSet kAvx2 = {kAvx2Tiles, kDotPacking, kStores, kGradWeightsPacking};
constexpr InstructionSet kAvxVnni = {kAvxVnniTiles, kDotPacking, kStores, kGradWeightsPacking};

}  // namespace
}  // namespace convolution_words::avx2

namespace convolution_bytes::avx512vnni {
namespace {

constexpr InstructionSet kAvx512Vnni = {kAvx512VnniTiles, kDotPacking, kAvx512VnniGradWeightsTiles};
constexpr InstructionSet kAmx = {kAmxTiles, kDotPacking, kAmxGradWeightsTiles};

}  // namespace
}  // namespace convolution_bytes::avx512vnni

const ConvolutionKernels kConvolutionAvx2 = kernels_of<convolution_words::avx2::kAvx2>(
    "convolution_avx2", kNeedsAvx2, declines_all_but_dense);
const ConvolutionKernels kConvolutionAvxVnni = kernels_of<convolution_words::avx2::kAvxVnni>(
    "convolution_avxvnni", kNeedsAvxVnni, declines_all_but_dense);
const ConvolutionKernels kConvolutionAvx512Vnni =
    kernels_of<convolution_bytes::avx512vnni::kAvx512Vnni>(
        "convolution_avx512vnni", kNeedsAvx512Vnni, declines_all_but_dense);
const ConvolutionKernels kConvolutionAmx = kernels_of<convolution_bytes::avx512vnni::kAmx>(
    "convolution_amx", kNeedsAmx, declines_all_but_dense);

}  // namespace mantissa::kernels
#endif
