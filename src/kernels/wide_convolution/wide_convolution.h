// Convolution of mantissas of more than 8 bits by the kernels for 8: an operand of 16-bit integers
// is split into two planes of int8, its upper bytes and its lower ones less 128. Each pair of
// planes is convolved exactly in int32, and the results are combined in int64, with sums of the
// operands for the 128 that are missing. Nothing is rounded on the way. Depthwise convolutions are
// products as they are (rows.h).
#pragma once

#include <vector>

#include "kernels/common/mantissa_span.h"
#include "kernels/convolution/choice.h"
#include "kernels/convolution/pieces.h"
#include "kernels/kernel_table.h"

namespace mantissa::kernels {

// sums[n, y, x, o] = bias[o] + the sum of ConvolutionForward, for input and weights of 2 to 16
// bits. The depth is limited as for 8 bits (kMaximumForwardDepth), |bias| <= 2^46: |sums| < 2^48.
struct WideForward {
  ConvolutionShape shape;
  ConstMantissaSpan input;
  ConstMantissaSpan weights;
  const int64_t* bias = nullptr;  // [O], or null
  int64_t* sums = nullptr;        // [N, OH, OW, O]
};

// Images whose sums are worked on at once: these sums and the sums of a plane stay in the L2 cache.
inline int64_t wide_images_per_chunk(const ConvolutionShape& shape) {
  return images_per_chunk(shape, 128 * 1024);
}

// The row for operands of such a shape and such widths, with choices for the products of its
// planes. Chosen once; every call is for the same shape and widths.
struct WideConvolutionRow;
struct WideChoice {
  const WideConvolutionRow* row = nullptr;
  std::vector<ConvolutionChoice> planes;
};

// The name of the row that takes forward passes, or with the gradient's bits grad_input.
const char* wide_convolution_name(const ConvolutionShape& shape, int source_bits,
                                  int weight_bits) noexcept;

WideChoice choose_wide_forward(const KernelTable& table, const ConvolutionShape& shape,
                               int input_bits, int weight_bits);
void wide_forward(const WideChoice& choice, const KernelTable& table, const WideForward& args,
                  const KernelContext& context) noexcept;
size_t wide_forward_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                  int input_bits, int weight_bits, int threads);

// The same as ConvolutionGradInput, for weights of 2 to 16 bits and gradients of up to 16, some
// images at a time.
struct WideGradInput {
  ConvolutionShape shape;
  ConstMantissaSpan grad_output;
  ConstMantissaSpan weights;
  int shift = 0;  // 0..62
  MantissaSpan grad_input;
  WideCounts* counts = nullptr;  // by worker, if wide values are counted
};

WideChoice choose_wide_grad_input(const KernelTable& table, const ConvolutionShape& shape,
                                  int gradient_bits, int weight_bits);
WideStatistics wide_grad_input(const WideChoice& choice, const KernelTable& table,
                               const WideGradInput& args, const KernelContext& context) noexcept;
size_t wide_grad_input_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                     int gradient_bits, int weight_bits, int threads);

// The same as ConvolutionGradWeights, for input of 2 to 16 bits and gradients of up to 16: rounded
// once per call. Exact for less than 2^32 pixels of output.
struct WideGradWeights {
  ConvolutionShape shape;
  ConstMantissaSpan input;
  ConstMantissaSpan grad_output;
  int shift = 0;
  int64_t* accumulator = nullptr;  // [O, KH, KW, C / G]
  bool adds = true;
};

// For the products of a plane.
ConvolutionChoice choose_wide_grad_weights(const KernelTable& table, const ConvolutionShape& shape,
                                           int input_bits, int gradient_bits);
void wide_grad_weights(const ConvolutionChoice& planes, const KernelTable& table,
                       const WideGradWeights& args, const KernelContext& context) noexcept;
size_t wide_grad_weights_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                       int input_bits, int gradient_bits, int threads);

}  // namespace mantissa::kernels
