#include "kernels/convolution_choice.h"

#include "kernels/convolution/grouped.h"
#include "kernels/convolution/sliced.h"
#include "kernels/convolution_dilated.h"
#include "kernels/convolution_wide_gradient.h"

namespace mantissa::kernels {
namespace {

struct Choice {
  const ConvolutionKernels& row;
  bool by_groups;  // the row takes one group at a time
};

Choice choose(const KernelTable& table, const ConvolutionShape& s) {
  if (s.groups > 1 && s.groups == s.in_channels && s.groups == s.out_channels) {
    return {*table.depthwise, false};
  }
  return {*table.convolution, s.groups > 1 && table.convolution->isa != Isa::kScalar};
}

// The reference takes dilation itself, the others a phase at a time.
bool takes_phases(const KernelTable& table, const ConvolutionShape& s) {
  return s.dilation > 1 && choose(table, s).row.isa != Isa::kScalar;
}

// The reference packs nothing.
int64_t slice_for(const ConvolutionKernels& row, int64_t channels) {
  return row.isa == Isa::kScalar ? 0 : channels;
}

}  // namespace

const char* convolution_kernel_name(const KernelTable& table,
                                    const ConvolutionShape& shape) noexcept {
  return choose(table, shape).row.name;
}

WideStatistics convolution_forward(const KernelTable& table, const ConvolutionForward& args,
                                   const KernelContext& context) noexcept {
  if (takes_phases(table, args.shape)) return dilated_forward(table, args, context);
  const auto [row, by_groups] = choose(table, args.shape);
  if (const int64_t channels = slice_for(row, forward_slice(args.shape)); channels > 0) {
    return sliced_forward(row, args, channels, context);
  }
  return by_groups ? grouped_forward(row, args, context) : row.forward(args, context);
}

size_t convolution_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                         int threads) noexcept {
  if (takes_phases(table, shape)) return dilated_forward_scratch_bytes(table, shape, threads);
  const auto [row, by_groups] = choose(table, shape);
  if (const int64_t channels = slice_for(row, forward_slice(shape)); channels > 0) {
    return sliced_forward_scratch_bytes(row, shape, channels, threads);
  }
  return by_groups ? grouped_forward_scratch_bytes(row, shape, threads)
                   : row.forward_scratch_bytes(shape, threads);
}

WideStatistics convolution_grad_input(const KernelTable& table, const ConvolutionGradInput& args,
                                      const KernelContext& context) noexcept {
  if (takes_phases(table, args.shape)) return dilated_grad_input(table, args, context);
  const auto [row, by_groups] = choose(table, args.shape);
  if (const int64_t channels = slice_for(row, grad_input_slice(args.shape)); channels > 0) {
    return sliced_grad_input(row, args, channels, context);
  }
  return by_groups ? grouped_grad_input(row, args, context) : row.grad_input(args, context);
}

size_t convolution_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                            int bits, int threads) noexcept {
  if (takes_phases(table, shape))
    return dilated_grad_input_scratch_bytes(table, shape, bits, threads);
  const auto [row, by_groups] = choose(table, shape);
  if (const int64_t channels = slice_for(row, grad_input_slice(shape)); channels > 0) {
    return sliced_grad_input_scratch_bytes(row, shape, channels, bits, threads);
  }
  return by_groups ? grouped_grad_input_scratch_bytes(row, shape, bits, threads)
                   : row.grad_input_scratch_bytes(shape, bits, threads);
}

void convolution_grad_weights(const KernelTable& table, const ConvolutionGradWeights& args,
                              const KernelContext& context) noexcept {
  if (args.grad_output.bits > 16) return wide_gradient_grad_weights(table, args, context);
  if (takes_phases(table, args.shape)) return dilated_grad_weights(table, args, context);
  const auto [row, by_groups] = choose(table, args.shape);
  if (by_groups) {
    grouped_grad_weights(row, args, context);
  } else {
    row.grad_weights(args, context);
  }
}

size_t convolution_grad_weights_scratch_bytes(const KernelTable& table,
                                              const ConvolutionShape& shape, int bits,
                                              int threads) noexcept {
  if (bits > 16) return wide_gradient_grad_weights_scratch_bytes(table, shape, threads);
  if (takes_phases(table, shape))
    return dilated_grad_weights_scratch_bytes(table, shape, bits, threads);
  const auto [row, by_groups] = choose(table, shape);
  return by_groups ? grouped_grad_weights_scratch_bytes(row, shape, bits, threads)
                   : row.grad_weights_scratch_bytes(shape, bits, threads);
}

}  // namespace mantissa::kernels
