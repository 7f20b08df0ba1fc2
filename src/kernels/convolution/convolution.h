// Convolution and its two gradients, in exact integers. A linear layer is a 1x1 convolution on 1x1
// images.
//
// Layouts (all dense, innermost last): input int8 [N, H, W, C], weights int8 [O, KH, KW, C / G],
// output int32 or int8 [N, OH, OW, O], gradients of activations (gradient.h) like the activation,
// gradients of weights int64 or int32 like the weights. Padding is with zeros. Mantissas are
// symmetric, |int8| <= 127, |int16| <= 32767; input and weights may be -128 where sums are not
// narrowed (wide_convolution.h). Kernels cannot fail: preconditions are checked by the plan.
//
// Channels come in G groups: output channel o reads the input channels of group o / (O / G) only.
// One group is the ordinary convolution, G = C = O a depthwise one.
//
// Sources: BlockFloat [0100]-[0134], METHODS section 0 (order) and 0.7 (gradients).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "reference/layers/convolution.h"
#include "tensor/execution.h"

namespace mantissa::kernels {

using ConvolutionShape = RefConvolutionShape;

// Longest sums (KH * KW * C / G forward, KH * KW * O / G for grad_input) that are exact: the bias
// uses up to 2^30 of the int32, 128 * 128 * depth and half a unit of the largest shift the rest.
// The plan refuses more.
constexpr int64_t kMaximumForwardDepth = 65'000;

// Largest shift of a forward sum to 8 bits: beyond it no sum is large enough to
// saturate, and up to it a sum plus half a unit still fits int32. To fewer bits it is 32 - bits:
// the inputs then have at most one bit more, and their sums are smaller by as much.
constexpr int kMaximumForwardShift = 24;

// sum[n, y, x, o] = bias[o] + sum over (ky, kx, c of o's group) of
//   input[n, y*stride + ky*dilation - padding, x*stride + kx*dilation - padding, c] * weights[o,
//   ky, kx, c], with the stride and padding of each axis.
// Writes the sums to `sums`, or saturate(rne(sum >> shift), +-(2^(bits-1) - 1)) to `output`:
// exactly one of them is given. Statistics: the maximum of |sum|; how many of `output` saturated.
struct ConvolutionForward {
  ConvolutionShape shape;
  const int8_t* input = nullptr;
  const int8_t* weights = nullptr;
  const int32_t* bias = nullptr;  // [O] at the sum's exponent, |bias| <= 2^30; or null
  int32_t* sums = nullptr;
  int8_t* output = nullptr;
  int bits = 8;            // of `output`, 2..8
  int shift = 0;           // 0..32 - bits
  PassCounts counts = {};  // written ones only if the kernel takes them
};

// sum[n, y, x, c] = sum over (ky, kx, o of c's group) of grad_output[n,
//   (y + padding - ky*dilation)/stride, (x + padding - kx*dilation)/stride, o] * weights[o, ky, kx,
//   c], where the divisions leave no remainder and the indices exist;
// grad_input = saturate(rne(sum >> shift), +-(2^(bits-1) - 1)). The sums are exact (int64 where
// needed). grad_input has the width of grad_output, or 16 bits, which are then rounded again.
//
// A transposed convolution is this with a value of up to 8 bits as grad_output. It wants the sums
// themselves, in `sums` in place of grad_input; the work then says so, and has no dilation.
struct ConvolutionGradInput {
  ConvolutionShape shape;
  ConstMantissaSpan grad_output;
  const int8_t* weights = nullptr;
  int shift = 0;  // 0..62
  MantissaSpan grad_input;
  PassCounts counts = {};   // written ones only if the kernel takes them
  int32_t* sums = nullptr;  // like the input; without counts
};

// sum[o, ky, kx, c] = exact sum over (n, y, x) of grad_output[n, y, x, o] *
//   input[n, y*stride + ky*dilation - padding, x*stride + kx*dilation - padding, c]  (up to 2^62);
// total = accumulate(adds ? total : 0, rescale_rne(sum, shift)): rounded once per call; shift may
// be negative. Totals of 32 bits are the sums themselves, which must fit: sums_fit_int32(),
// most_magnitudes_of_int32_sums().
struct ConvolutionGradWeights {
  ConvolutionShape shape;
  const int8_t* input = nullptr;
  ConstMantissaSpan grad_output;
  int shift = 0;
  GradientSums totals;  // [O, KH, KW, C / G]
  bool adds = true;     // to the totals; else they are written, whatever they were
};

// The most that the magnitudes of an output channel's gradients may sum up to for its sums of
// products, and any part of them, to fit totals of 32 bits, whatever the inputs are.
constexpr int64_t most_magnitudes_of_int32_sums(int input_bits) {
  return INT32_MAX / ((int64_t{1} << (input_bits - 1)) - 1);
}

// Whether sums of this many products of such mantissas fit totals of 32 bits.
constexpr bool sums_fit_int32(int64_t depth, int input_bits, int gradient_bits) {
  const int64_t gradient_limit = (int64_t{1} << (gradient_bits - 1)) - 1;
  return depth <= most_magnitudes_of_int32_sums(input_bits) / gradient_limit;
}

enum class ConvolutionPass { kForward, kGradInput, kGradWeights };

// Work that rows are asked about.
struct ConvolutionWork {
  ConvolutionPass pass = ConvolutionPass::kForward;
  ConvolutionShape shape;
  int bits = 8;  // of grad_output; 8 in the forward pass
  bool sums = false;  // grad_input leaves its sums as they are
};

// Rows of the kernel table: the reference, and after it the better ones (kernels.inc).
struct ConvolutionKernels;
using ConvolutionRows = std::span<const ConvolutionKernels* const>;

// Kernels that were chosen for the parts that a row cuts its work into (choice.h).
struct ConvolutionChoice;
using ConvolutionParts = std::span<const ConvolutionChoice>;

// One row. Every function is bit-equal to the reference (kConvolutionReference), whatever the
// pool's size. The scratch functions say how many bytes the context must bring, for a pool of
// `threads` threads and grad_output of up to `bits` bits.
//
// A row may cut its work into parts and pass them to the rows below it in the table. Each part gets
// the best row that takes it. The functions are given one choice for each of the parts.
struct ConvolutionKernels {
  const char* name;
  Features needs;
  // Why the row does not take the work, or null. The reference takes all.
  const char* (*declines)(const ConvolutionWork&) noexcept;
  // The parts, those that are alike once. Null: the row cuts nothing.
  std::vector<ConvolutionWork> (*parts)(const ConvolutionWork&);
  WideStatistics (*forward)(const ConvolutionForward&, ConvolutionParts,
                            const KernelContext&) noexcept;
  size_t (*forward_scratch_bytes)(const ConvolutionShape&, int threads, ConvolutionParts) noexcept;
  WideStatistics (*grad_input)(const ConvolutionGradInput&, ConvolutionParts,
                               const KernelContext&) noexcept;
  size_t (*grad_input_scratch_bytes)(const ConvolutionShape&, int bits, int threads,
                                     ConvolutionParts) noexcept;
  void (*grad_weights)(const ConvolutionGradWeights&, ConvolutionParts,
                       const KernelContext&) noexcept;
  size_t (*grad_weights_scratch_bytes)(const ConvolutionShape&, int bits, int threads,
                                       ConvolutionParts) noexcept;
};

extern const ConvolutionKernels kConvolutionReference;
// These cut work into parts, and contain no instruction set's code.
extern const ConvolutionKernels kConvolutionGrouped;  // a group of channels at a time
extern const ConvolutionKernels kConvolutionSliced;   // some of the result's channels at a time
extern const ConvolutionKernels kConvolutionDilated;  // pixels that dilated taps meet together
extern const ConvolutionKernels kConvolutionDigits;   // digits of gradients of up to 32 bits
#if defined(__x86_64__)
extern const ConvolutionKernels kConvolutionAvx2;
extern const ConvolutionKernels kConvolutionAvxVnni;
extern const ConvolutionKernels kConvolutionAvx512Vnni;
extern const ConvolutionKernels kConvolutionAmx;
#endif

}  // namespace mantissa::kernels
