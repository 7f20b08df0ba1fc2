// Convolutions and linear layers on small machines, one output pixel at a time: no memory but for
// the sums of a pixel. A linear layer is a 1x1 convolution on 1x1 images.
//
// The sums are those of ref_convolution_forward (reference/layers/convolution.h): exact, so that
// their order is free. Layouts are the same. Weights that stay as they are: words.h.
#pragma once

#include "reference/types.h"

typedef struct DevConvolution {
  int32_t batch;
  int32_t in_height, in_width, in_channels;
  int32_t out_height, out_width, out_channels;
  int32_t kernel_height, kernel_width;
  int32_t stride_height, stride_width;
  int32_t padding_height, padding_width;
  int32_t groups, dilation;
} DevConvolution;

// The weights [O, KH, KW, C / G] are mantissas * 2^shift, in units of the sums.
typedef struct DevWeights {
  const void* mantissas;
  const int32_t* bias;  // [O], in units of the sums; or null
  int shift;
} DevWeights;

// Takes the sums of the output channels of a pixel; pixels come in their order.
typedef void (*DevTake)(void* work, const int32_t* sums, int32_t pixel);

REF_BEGIN

// `sums` has room for a number per output channel. Weights of 8 bits.
void dev_convolution_8(const DevConvolution*, const int8_t* input, const DevWeights*, int32_t* sums,
                       DevTake, void* work) REF_NOEXCEPT;
// One input channel for each output channel (G = C = O).
void dev_depthwise_8(const DevConvolution*, const int8_t* input, const DevWeights*, int32_t* sums,
                     DevTake, void* work) REF_NOEXCEPT;

REF_END
