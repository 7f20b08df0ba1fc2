// Exponents of a convolution's sums if the output channels of its weights have exponents of their
// own, and how tensors that the channels share are aligned to them.
#pragma once

#include "ops/narrowing.h"

namespace mantissa::ops {

// The sums of output channel o are in units of 2^(exponent of the input + exponent of its weights).
class SumExponents {
 public:
  // `unit`: above the unit of products.
  SumExponents(const Tensor& input, const Tensor& weights, int unit = 0)
      : input_(*input.exponent + unit), weights_(weights) {}

  int of(int64_t channel) const { return input_ + weights_.block_exponent(channel); }
  int largest() const { return input_ + weights_.largest_exponent(); }
  // Whether channels may differ.
  bool by_channel() const { return weights_.blocks > 1; }

 private:
  int input_;
  const Tensor& weights_;
};

// The least exponent of the channels of weights, but at most kMostChannelSpread below the largest.
// above[o]: by how much the exponent of channel o is larger.
int least_channel_exponent(const Tensor& weights, int32_t* above);

// Sums that are left wide, in c.output()'s shape, get one exponent, the largest, which is returned:
// sums of other channels are shifted to the right (rne).
int align_sums(const OpContext& c, const SumExponents& exponents, int32_t* sums);

// The largest shift of a gradient that is aligned: the kernel's limit. From 16 on nothing is left.
constexpr int kMostGradientShift = 30;

// Bytes of workspace that align_gradient needs for a gradient [rows, channels].
int64_t align_gradient_bytes(int64_t rows, int64_t channels, int bits);

// c.grad_output() in units in which all channels of the weights have the largest exponent.
// Mantissas of other channels are shifted to the right (rne), into the workspace, as wide as they
// were. Nothing can overflow. If a channel's weights are smaller by 2^k, k bits are lost.
kernels::ConstMantissaSpan align_gradient(const OpContext& c, const Tensor& weights);

}  // namespace mantissa::ops
