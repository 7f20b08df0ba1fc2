// Depthwise convolution of mantissas of more than 8 bits: each product as it is, in int64. A
// channel has so few that splitting operands into planes, as kernels/convolution_wide.h does, takes
// longer than the products.
#pragma once

#include "kernels/convolution/convolution.h"
#include "kernels/kernel_table.h"
#include "kernels/mantissa_span.h"

namespace mantissa::kernels {

// sums = bias + the sums of ConvolutionForward, for input and weights of 2 to 16 bits; or,
// mirrored, those of ConvolutionGradInput, of the gradient of the output.
struct DepthwiseWide {
  ConvolutionShape shape;
  bool mirrored = false;
  ConstMantissaSpan source;       // [N, H, W, C]; mirrored [N, OH, OW, C]
  ConstMantissaSpan weights;      // [C, KH, KW, 1]
  const int64_t* bias = nullptr;  // [C], or null
  int64_t* sums = nullptr;        // [N, OH, OW, C]; mirrored [N, H, W, C]
};

// Whether it is for operands of these widths: more than 8 bits of one, a filter for each channel,
// not too large, without dilation.
bool is_depthwise_wide(const ConvolutionShape& shape, int source_bits, int weight_bits);

void depthwise_wide(const KernelTable& table, const DepthwiseWide& args,
                    const KernelContext& context) noexcept;
size_t depthwise_wide_scratch_bytes(const ConvolutionShape& shape);

}  // namespace mantissa::kernels
