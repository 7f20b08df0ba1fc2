// Convolution and its gradients in fp32, by oneDNN. A linear layer is a 1x1 convolution on 1x1
// images. The reference that integer formats are compared with: sums are rounded in whatever order
// oneDNN takes them, so nothing here promises bits.
//
// Layouts are those of kernels/convolution/convolution.h, with floats. Scratch holds the weights in
// the order that oneDNN wants, and what oneDNN needs itself.
#pragma once

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "tensor/execution.h"

namespace mantissa::kernels::fp32 {

enum class Pass { kForward, kGradInput, kGradWeights };

// Bytes of scratch, or -1 where oneDNN has no kernel for the shape. load_onednn() must have
// succeeded, here and below.
int64_t convolution_scratch_bytes(const ConvolutionShape& shape, Pass pass, bool bias,
                                  int threads) noexcept;

// The three passes write their whole result; `bias` and `grad_bias` [O] may be null. False if
// oneDNN failed (out of memory): the result is then undefined.
bool convolution_forward(const ConvolutionShape& shape, const float* input, const float* weights,
                         const float* bias, float* output, const KernelContext& context) noexcept;
bool convolution_grad_input(const ConvolutionShape& shape, const float* grad_output,
                            const float* weights, float* grad_input,
                            const KernelContext& context) noexcept;
bool convolution_grad_weights(const ConvolutionShape& shape, const float* input,
                              const float* grad_output, float* grad_weights, float* grad_bias,
                              const KernelContext& context) noexcept;

}  // namespace mantissa::kernels::fp32
