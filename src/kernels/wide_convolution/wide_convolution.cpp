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

WideChoice choose_wide_forward(const KernelTable& table, const ConvolutionShape& shape,
                               int input_bits, int weight_bits) {
  const WideConvolutionRow& row = choose(shape, input_bits, weight_bits);
  return {&row, row.forward_planes(table, shape, input_bits)};
}

void wide_forward(const WideChoice& choice, const KernelTable& table, const WideForward& args,
                  const KernelContext& context) noexcept {
  choice.row->forward(table, args, choice.planes, context);
}

size_t wide_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                  int input_bits, int weight_bits, int threads) {
  const WideChoice choice = choose_wide_forward(table, shape, input_bits, weight_bits);
  return choice.row->forward_scratch_bytes(shape, input_bits, weight_bits, threads, choice.planes);
}

WideChoice choose_wide_grad_input(const KernelTable& table, const ConvolutionShape& shape,
                                  int gradient_bits, int weight_bits) {
  const WideConvolutionRow& row = choose(shape, gradient_bits, weight_bits);
  return {&row, row.grad_input_planes(table, shape, gradient_bits)};
}

WideStatistics wide_grad_input(const WideChoice& choice, const KernelTable& table,
                               const WideGradInput& args, const KernelContext& context) noexcept {
  return choice.row->grad_input(table, args, choice.planes, context);
}

size_t wide_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                     int gradient_bits, int weight_bits, int threads) {
  const WideChoice choice = choose_wide_grad_input(table, shape, gradient_bits, weight_bits);
  return choice.row->grad_input_scratch_bytes(shape, gradient_bits, weight_bits, threads,
                                              choice.planes);
}

}  // namespace mantissa::kernels
