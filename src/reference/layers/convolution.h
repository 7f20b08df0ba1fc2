// Convolution and its two gradients, in exact integers. A linear layer is a 1x1 convolution on 1x1
// images.
//
// Layouts (all dense, innermost last): input int8 [N, H, W, C], weights int8 [O, KH, KW, C / G],
// output int32 or int8 [N, OH, OW, O], gradients of activations like the activation, gradients of
// weights int64 or int32 like the weights. Padding is with zeros. Mantissas are symmetric, |int8|
// <= 127, |int16| <= 32767; input and weights may be -128 where sums are not narrowed.
//
// Channels come in G groups: output channel o reads the input channels of group o / (O / G) only.
// One group is the ordinary convolution, G = C = O a depthwise one.
//
// Sources: BlockFloat [0100]-[0134], METHODS section 0 (order) and 0.7 (gradients).
#pragma once

#include "reference/numerics/wide_counts.h"

typedef struct RefConvolutionShape {
  int64_t batch REF_CXX(= 1);
  int64_t in_height REF_CXX(= 1), in_width REF_CXX(= 1), in_channels REF_CXX(= 1);
  int64_t out_height REF_CXX(= 1), out_width REF_CXX(= 1), out_channels REF_CXX(= 1);
  int64_t kernel_height REF_CXX(= 1), kernel_width REF_CXX(= 1);
  int64_t stride_height REF_CXX(= 1), stride_width REF_CXX(= 1);
  int64_t padding_height REF_CXX(= 0);  // rows above and below; may leave a rest unused
  int64_t padding_width REF_CXX(= 0);   // columns left and right
  int64_t groups REF_CXX(= 1);          // divides both channel counts
  int64_t dilation REF_CXX(= 1);        // pixels from one tap to the next
#ifdef __cplusplus
  int64_t input_count() const { return batch * in_height * in_width * in_channels; }
  int64_t output_count() const { return batch * out_height * out_width * out_channels; }
  int64_t group_in_channels() const { return in_channels / groups; }
  int64_t group_out_channels() const { return out_channels / groups; }
  int64_t weights_count() const {
    return out_channels * kernel_height * kernel_width * group_in_channels();
  }
  // Multiply-adds of the forward pass; each gradient takes as many.
  int64_t multiply_adds() const { return batch * out_height * out_width * weights_count(); }
#endif
} RefConvolutionShape;

// sum[n, y, x, o] = bias[o] + sum over (ky, kx, c of o's group) of
//   input[n, y*stride + ky*dilation - padding, x*stride + kx*dilation - padding, c] * weights[o,
//   ky, kx, c], with the stride and padding of each axis.
// Writes the sums to `sums`, or saturate(rne(sum >> shift), +-(2^(bits-1) - 1)) to `output`:
// exactly one of them is given. Statistics: the maximum of |sum|; how many of `output` saturated.
// |sum| < 2^31: the bias is at most 2^30, and KH * KW * C / G at most 65,000.
typedef struct RefConvolutionForward {
  const int8_t* input;
  const int8_t* weights;
  const int32_t* bias;  // [O] at the sum's exponent; or null
  int32_t* sums;
  int8_t* output;
  int bits;               // of `output`, 2..8
  int shift;              // 0..32 - bits
  RefWideCounts* counts;  // of the sums that are narrowed; or null
} RefConvolutionForward;

// sum[n, y, x, c] = sum over (ky, kx, o of c's group) of grad_output[n,
//   (y + padding - ky*dilation)/stride, (x + padding - kx*dilation)/stride, o] * weights[o, ky, kx,
//   c], where the divisions leave no remainder and the indices exist;
// grad_input = saturate(rne(sum >> shift), +-(2^(bits-1) - 1)). grad_input has the width of
// grad_output, up to 16 bits, or 16 bits, which are then rounded again.
typedef struct RefConvolutionGradInput {
  RefConstSpan grad_output;
  const int8_t* weights;
  int shift;  // 0..62
  RefSpan grad_input;
  int64_t* scratch;       // as many as the input has elements
  RefWideCounts* counts;  // of the sums; or null
  int32_t* sums;          // of a grad_output of up to 8 bits, in place of grad_input; or null
} RefConvolutionGradInput;

// sum[o, ky, kx, c] = exact sum over (n, y, x) of grad_output[n, y, x, o] *
//   input[n, y*stride + ky*dilation - padding, x*stride + kx*dilation - padding, c]  (up to 2^62);
// total = accumulate(adds ? total : 0, rescale_rne(sum, shift)): rounded once per call; shift may
// be negative. Totals of 32 bits are the sums themselves, which must fit. grad_output has up to 32
// bits.
typedef struct RefConvolutionGradWeights {
  const int8_t* input;
  RefConstSpan grad_output;
  int shift;
  RefSums totals;    // [O, KH, KW, C / G]
  bool adds;         // to the totals; else they are written, whatever they were
  int64_t* scratch;  // as many as there are weights
} RefConvolutionGradWeights;

REF_BEGIN

RefStatistics ref_convolution_forward(const RefConvolutionShape*,
                                      const RefConvolutionForward*) REF_NOEXCEPT;
RefStatistics ref_convolution_grad_input(const RefConvolutionShape*,
                                         const RefConvolutionGradInput*) REF_NOEXCEPT;
void ref_convolution_grad_weights(const RefConvolutionShape*,
                                  const RefConvolutionGradWeights*) REF_NOEXCEPT;

REF_END
