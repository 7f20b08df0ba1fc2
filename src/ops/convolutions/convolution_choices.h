// The kernel rows chosen by the instructions of a convolution: OpKernels::prepared.
#pragma once

#include <memory>
#include <utility>

#include "kernels/convolution/choice.h"
#include "kernels/convolution/pieces.h"
#include "kernels/kernel_table.h"
#include "ops/convolutions/convolution_shape.h"

namespace mantissa::ops {

template <typename T>
Prepared prepared(T choices) {
  return std::make_shared<const T>(std::move(choices));
}

// The choices given to prepared() for this instruction.
template <typename T>
const T& choices_of(const OpContext& c) {
  return *static_cast<const T*>(c.kernel.prepared);
}

using kernels::ConvolutionChoice;
using kernels::PieceChoices;

inline ConvolutionChoice choose(const OpContext& c, const kernels::ConvolutionWork& work) {
  return kernels::choose_convolution(c.kernel.table->convolution, work);
}

}  // namespace mantissa::ops
