// Mantissas of values and weights, whose widths the format chooses (a, w, linear, unsigned): kept
// as those of gradients are, up to 8 bits as int8, else as int16.
#pragma once

#include "kernels/gradient.h"

namespace mantissa::kernels {

using ConstValue = ConstGradient;
using Value = Gradient;

// Calls function(T{}) with T = int8_t or int16_t, whichever keeps `bits`.
template <typename Function>
decltype(auto) with_value_type(int bits, Function&& function) {
  return with_gradient_type(bits, function);
}

}  // namespace mantissa::kernels
