// The rows of the kernel table.
#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_kernels.h"

namespace mantissa::kernels {
namespace convolution_avx512vnni {
namespace {

template <const Tiles& kTiles, const GradWeightsTiles& kGradWeightsTiles>
constexpr ConvolutionKernels kernels_of(const char* name, Isa isa) {
  return {
      .name = name,
      .isa = isa,
      .forward =
          [](const ConvolutionForward& args, const KernelContext& context) noexcept {
            return forward(kTiles, args, context);
          },
      .forward_scratch_bytes =
          [](const ConvolutionShape& shape, int threads) noexcept {
            return forward_scratch_bytes(kTiles, shape, threads);
          },
      .grad_input =
          [](const ConvolutionGradInput& args, const KernelContext& context) noexcept {
            return grad_input(kTiles, args, context);
          },
      .grad_input_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads) noexcept {
            return grad_input_scratch_bytes(kTiles, shape, bits, threads);
          },
      .grad_weights =
          [](const ConvolutionGradWeights& args, const KernelContext& context) noexcept {
            grad_weights(kGradWeightsTiles, args, context);
          },
      .grad_weights_scratch_bytes =
          [](const ConvolutionShape& shape, int bits, int threads) noexcept {
            return grad_weights_scratch_bytes(kGradWeightsTiles, shape, bits, threads);
          },
  };
}

}  // namespace
}  // namespace convolution_avx512vnni

namespace fast = convolution_avx512vnni;

const ConvolutionKernels kConvolutionAvx512Vnni =
    fast::kernels_of<fast::kAvx512VnniTiles, fast::kAvx512VnniGradWeightsTiles>(
        "convolution_avx512vnni", Isa::kAvx512Vnni);
const ConvolutionKernels kConvolutionAmx =
    fast::kernels_of<fast::kAmxTiles, fast::kAmxGradWeightsTiles>("convolution_amx", Isa::kAmx);

}  // namespace mantissa::kernels
#endif
