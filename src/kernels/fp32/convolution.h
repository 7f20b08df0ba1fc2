// Convolution and its gradients in fp32, by oneDNN. A linear layer is a 1x1 convolution on 1x1
// images. The reference that integer formats are compared with: sums are rounded in whatever order
// oneDNN takes them, so nothing here promises bits.
//
// The same layouts as in kernels/convolution/convolution.h, with floats. Scratch holds the weights
// in the order that oneDNN wants, and its own scratchpad.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/convolution/convolution.h"
#include "tensor/execution.h"

namespace mantissa::kernels::fp32 {

// Bytes of scratch, or -1 if oneDNN has no kernel for the shape. load_onednn() must have succeeded,
// here and below.
int64_t convolution_scratch_bytes(const ConvolutionShape& shape, ConvolutionPass pass, bool bias,
                                  int threads) noexcept;

// A pass of a convolution with oneDNN's primitives for it, for a number of threads. It is made once
// and runs as often as wanted, one run at a time.
class Convolution;
std::shared_ptr<const Convolution> make_convolution(const ConvolutionShape& shape,
                                                    ConvolutionPass pass, bool bias,
                                                    int threads) noexcept;  // null: out of memory

// The three passes write their whole result, with as many threads as the convolution was made for.
// `bias` and `grad_bias` [O] are given if it was made with a bias. False if oneDNN failed or the
// convolution is null (out of memory): the result is then undefined.
bool convolution_forward(const Convolution* convolution, const float* input, const float* weights,
                         const float* bias, float* output, const KernelContext& context) noexcept;
bool convolution_grad_input(const Convolution* convolution, const float* grad_output,
                            const float* weights, float* grad_input,
                            const KernelContext& context) noexcept;
bool convolution_grad_weights(const Convolution* convolution, const float* input,
                              const float* grad_output, float* grad_weights, float* grad_bias,
                              const KernelContext& context) noexcept;

}  // namespace mantissa::kernels::fp32
