// Which row convolves: the last one that takes the work. Operators call these functions; contracts
// are in kernels/convolution/convolution.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

struct ConvolutionChoice {
  const ConvolutionKernels& row;
  ConvolutionRows below;  // rows for the parts that it hands on
};

// Asks the rows one after the other, the last first. The first row is the reference, which takes
// all. A row that only cuts work into parts is passed over where the reference would take these:
// it takes the whole as well.
ConvolutionChoice choose_convolution(ConvolutionRows rows, const ConvolutionWork& work) noexcept;

// Whether the plain loops of the reference are all that there is for this work.
bool is_left_to_reference(ConvolutionRows rows, const ConvolutionWork& work) noexcept;

// The name of the row that multiplies: of the work, or of its parts, or of theirs.
const char* convolution_kernel_name(ConvolutionRows rows, const ConvolutionShape& shape) noexcept;

// For reports: the chosen row and those that its parts go to, "convolution_grouped,
// convolution_words"; and the rows that were passed over, with their reasons.
struct ExplainedChoice {
  std::string chosen;
  std::vector<std::pair<std::string, std::string>> declined;
};
ExplainedChoice explain_choice(ConvolutionRows rows, const ConvolutionWork& work);

WideStatistics convolution_forward(ConvolutionRows rows, const ConvolutionForward& args,
                                   const KernelContext& context) noexcept;
size_t convolution_forward_scratch_bytes(ConvolutionRows rows, const ConvolutionShape& shape,
                                         int threads) noexcept;

WideStatistics convolution_grad_input(ConvolutionRows rows, const ConvolutionGradInput& args,
                                      const KernelContext& context) noexcept;
size_t convolution_grad_input_scratch_bytes(ConvolutionRows rows, const ConvolutionShape& shape,
                                            int bits, int threads) noexcept;

void convolution_grad_weights(ConvolutionRows rows, const ConvolutionGradWeights& args,
                              const KernelContext& context) noexcept;
size_t convolution_grad_weights_scratch_bytes(ConvolutionRows rows, const ConvolutionShape& shape,
                                              int bits, int threads) noexcept;

}  // namespace mantissa::kernels
