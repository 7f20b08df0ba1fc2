// The rows of the kernel table.
#if defined(__x86_64__)
#include "kernels/convolution/avx2_kernels.h"

namespace mantissa::kernels {
namespace convolution_avx2 {
namespace {

template <const Tiles& kTiles>
constexpr ConvolutionKernels kernels_of(const char* name, Isa isa) {
  return {
      .name = name,
      .isa = isa,
      .forward =
          [](const ConvolutionForward& args, const KernelContext& context) noexcept {
            return forward(kTiles, args, context);
          },
      .forward_scratch_bytes = forward_scratch_bytes,
      .grad_input =
          [](const ConvolutionGradInput& args, const KernelContext& context) noexcept {
            return grad_input(kTiles, args, context);
          },
      .grad_input_scratch_bytes = grad_input_scratch_bytes,
      .grad_weights =
          [](const ConvolutionGradWeights& args, const KernelContext& context) noexcept {
            grad_weights(kTiles, args, context);
          },
      .grad_weights_scratch_bytes = grad_weights_scratch_bytes,
  };
}

}  // namespace
}  // namespace convolution_avx2

const ConvolutionKernels kConvolutionAvx2 =
    convolution_avx2::kernels_of<convolution_avx2::kAvx2Tiles>("convolution_avx2", Isa::kAvx2);
const ConvolutionKernels kConvolutionAvxVnni =
    convolution_avx2::kernels_of<convolution_avx2::kAvxVnniTiles>("convolution_avxvnni",
                                                                  Isa::kAvxVnni);

}  // namespace mantissa::kernels
#endif
