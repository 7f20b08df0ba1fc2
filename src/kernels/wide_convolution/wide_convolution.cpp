#include "kernels/wide_convolution/wide_convolution.h"

#include "kernels/wide_convolution/rows.h"

namespace mantissa::kernels {
namespace {

// The last row that takes the work; the first takes all.
const WideConvolutionRow& choose(const ConvolutionShape& shape, int source_bits, int weight_bits) {
  return kWideByProducts.declines(shape, source_bits, weight_bits) == nullptr ? kWideByProducts
                                                                              : kWideByPlanes;
}

}  // namespace

const char* wide_convolution_name(const ConvolutionShape& shape, int source_bits,
                                  int weight_bits) noexcept {
  return choose(shape, source_bits, weight_bits).name;
}

void wide_forward(const KernelTable& table, const WideForward& args,
                  const KernelContext& context) noexcept {
  choose(args.shape, args.input.bits, args.weights.bits).forward(table, args, context);
}

size_t wide_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                  int input_bits, int weight_bits, int threads) noexcept {
  return choose(shape, input_bits, weight_bits)
      .forward_scratch_bytes(table, shape, input_bits, weight_bits, threads);
}

WideStatistics wide_grad_input(const KernelTable& table, const WideGradInput& args,
                               const KernelContext& context) noexcept {
  return choose(args.shape, args.grad_output.bits, args.weights.bits)
      .grad_input(table, args, context);
}

size_t wide_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                     int gradient_bits, int weight_bits, int threads) noexcept {
  return choose(shape, gradient_bits, weight_bits)
      .grad_input_scratch_bytes(table, shape, gradient_bits, weight_bits, threads);
}

}  // namespace mantissa::kernels
