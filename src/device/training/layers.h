// Convolutions and linear layers of a training step (reference/layers/convolution.h has the sums).
#pragma once

#include "device/runtime/convolution.h"
#include "device/training/narrow.h"

typedef struct DevLayer {
  const DevConvolution* shape;
  const DevTensor* in;
  const int8_t* weights;
  const int16_t* exponents;  // of the weights: [blocks]
  int32_t blocks;            // 1, or a block for each output channel
  const int16_t* bias;       // of `bias_bits` bits: int8 or int16; or null
  const int16_t* bias_exponent;
  int bias_bits;
  int32_t* work;  // [4 * out_channels]
} DevLayer;

// Sums of a parameter's gradient: int64 at a fixed exponent, or int32 at their own.
typedef struct DevSums {
  void* data;  // null: they are not wanted
  int16_t* exponent;
  int bits;
} DevSums;

REF_BEGIN

// To mantissas; out->bits is 8 or fewer.
void dev_layer_forward(DevStep*, const DevLayer*, const DevTensor* out) REF_NOEXCEPT;
// To sums that stay wide (int32), at the largest exponent of the channels.
void dev_layer_sums(DevStep*, const DevLayer*, const DevTensor* out) REF_NOEXCEPT;
// The same, rounded half up (device/operators/half_up.h).
void dev_layer_forward_half_up(DevStep*, const DevLayer*, const DevTensor* out) REF_NOEXCEPT;
void dev_layer_sums_half_up(DevStep*, const DevLayer*, const DevTensor* out) REF_NOEXCEPT;
void dev_layer_grad_input(DevStep*, const DevLayer*, const DevTensor* grad_out,
                          const DevTensor* grad_in) REF_NOEXCEPT;
// `adds`: to sums that are there.
void dev_layer_grad_weights(const DevStep*, const DevLayer*, const DevTensor* grad_out,
                            const DevSums*, bool adds) REF_NOEXCEPT;
void dev_layer_grad_bias(const DevTensor* grad_out, const DevSums*) REF_NOEXCEPT;

REF_END
