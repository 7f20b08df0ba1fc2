// Convolutions and linear layers of frozen networks, whose weights lie in words as the loops read
// them. Two output pixels and two output channels at a time: each number that is loaded is used
// twice.
//
// Weights are mantissas * 2^shift, in units of the sums. A word of 8, 4 or 2 bits has N = 1, 2 or 4
// fours of mantissas: four j begins at bit 8 - bits * (j + 1) of each byte.
#pragma once

#include "device/runtime/convolution.h"

REF_BEGIN

// Words are [groups, pairs of output channels of a group, words, 2]; a channel's K = KH * KW * C /
// G weights fill up with zeros, a last channel without a partner with a channel of zeros. |sums|
// are below 2^31, also with weights in the highest bits of 8. `work` has room for the sums of two
// pixels and another one each, their inputs widened to 16 bits, and, but for 1x1 convolutions
// without padding that fill their words, one pixel's inputs as bytes, all that a channel's words
// cover. If there is only one pixel: for its sums and another one, and inputs as bytes.
void dev_convolution_words_8(const DevConvolution*, const int8_t* input, const DevWeights*,
                             void* work, DevTake, void* takes) REF_NOEXCEPT;
void dev_convolution_words_4(const DevConvolution*, const int8_t* input, const DevWeights*,
                             void* work, DevTake, void* takes) REF_NOEXCEPT;
void dev_convolution_words_2(const DevConvolution*, const int8_t* input, const DevWeights*,
                             void* work, DevTake, void* takes) REF_NOEXCEPT;
// 1x1 images, one after the other, by a convolution of one tap.
void dev_linear_words_8(const DevConvolution*, const int8_t* input, const DevWeights*, void* work,
                        DevTake, void* takes) REF_NOEXCEPT;
void dev_linear_words_4(const DevConvolution*, const int8_t* input, const DevWeights*, void* work,
                        DevTake, void* takes) REF_NOEXCEPT;
void dev_linear_words_2(const DevConvolution*, const int8_t* input, const DevWeights*, void* work,
                        DevTake, void* takes) REF_NOEXCEPT;
// One input channel for each output channel (G = C = O): words are [KH, KW, words of all channels].
// `work` has room for a number of 32 bits per channel.
void dev_depthwise_words_8(const DevConvolution*, const int8_t* input, const DevWeights*,
                           void* work, DevTake, void* takes) REF_NOEXCEPT;
void dev_depthwise_words_4(const DevConvolution*, const int8_t* input, const DevWeights*,
                           void* work, DevTake, void* takes) REF_NOEXCEPT;
void dev_depthwise_words_2(const DevConvolution*, const int8_t* input, const DevWeights*,
                           void* work, DevTake, void* takes) REF_NOEXCEPT;

REF_END
