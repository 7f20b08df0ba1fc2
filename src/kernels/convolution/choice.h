// The row that convolves: the last one that takes the work. It is chosen once, and called as often
// as the work comes. Contracts are in kernels/convolution/convolution.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// The row for some work, with choices for the parts that it hands on. Every call is for this work:
// the same pass, shape and bits.
struct ConvolutionChoice {
  const ConvolutionKernels* row = nullptr;
  ConvolutionWork work;
  std::vector<ConvolutionChoice> parts;

  WideStatistics forward(const ConvolutionForward& args,
                         const KernelContext& context) const noexcept {
    return row->forward(args, parts, context);
  }
  WideStatistics grad_input(const ConvolutionGradInput& args,
                            const KernelContext& context) const noexcept {
    return row->grad_input(args, parts, context);
  }
  void grad_weights(const ConvolutionGradWeights& args,
                    const KernelContext& context) const noexcept {
    row->grad_weights(args, parts, context);
  }
  size_t scratch_bytes(int threads) const noexcept;
};

// Asks the rows one after the other, the last first. The first row is the reference, which takes
// all shapes. A row that only cuts work into parts is passed over if the reference would take its
// parts: then the reference takes the whole.
ConvolutionChoice choose_convolution(ConvolutionRows rows, const ConvolutionWork& work);

// Scratch for the work, or for the same with gradients of fewer bits, which another row may take.
size_t convolution_scratch_bytes(ConvolutionRows rows, const ConvolutionWork& work, int threads);

// Whether the plain loops of the reference are all that there is for this work.
bool is_left_to_reference(ConvolutionRows rows, const ConvolutionWork& work);

// The name of the row that multiplies: of the work, or of its parts, or of theirs.
const char* convolution_kernel_name(ConvolutionRows rows, const ConvolutionShape& shape);

// For reports: the chosen row and those that its parts go to, "convolution_grouped,
// convolution_words"; and the rows that were passed over, with their reasons.
struct ExplainedChoice {
  std::string chosen;
  std::vector<std::pair<std::string, std::string>> declined;
};
ExplainedChoice explain_choice(ConvolutionRows rows, const ConvolutionWork& work);

}  // namespace mantissa::kernels
