// Mantissas of values, weights and gradients, whose widths the format chooses, and sums of
// gradients.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/types.h"

namespace mantissa::kernels {

// Mantissas of up to 8 bits are kept as int8, of up to 16 as int16; they are symmetric. Gradients
// of up to 32 bits are kept as int32 (gw): those between two linear or convolution layers.
using ConstMantissaSpan = RefConstSpan;
using MantissaSpan = RefSpan;

// Sums over the batch, of a parameter's gradient or on the way to it: int64, or int32 (bits 32) if
// no sum can leave it.
using GradientSums = RefSums;

constexpr int64_t gradient_bytes(int bits) { return bits <= 8 ? 1 : bits <= 16 ? 2 : 4; }

// Calls function(T{}) with T = int8_t or int16_t, whichever keeps `bits`.
template <typename Function>
decltype(auto) with_gradient_type(int bits, Function&& function) {
  return bits <= 8 ? function(int8_t{}) : function(int16_t{});
}

// The same for values and weights.
template <typename Function>
decltype(auto) with_value_type(int bits, Function&& function) {
  return with_gradient_type(bits, function);
}

// Calls function(T{}) with T = int32_t or int64_t, whichever the sums are.
template <typename Function>
decltype(auto) with_sum_type(int bits, Function&& function) {
  return bits <= 32 ? function(int32_t{}) : function(int64_t{});
}

// As with_gradient_type, for gradients that may be wider than the format's g: also T = int32_t.
template <typename Function>
decltype(auto) with_wide_gradient_type(int bits, Function&& function) {
  return bits <= 16 ? with_gradient_type(bits, function) : function(int32_t{});
}

// The same for results made of gradients of type From: if these have 32 bits the results have, too.
template <typename From, typename Function>
decltype(auto) with_gradient_type_from(int bits, Function&& function) {
  if constexpr (sizeof(From) == sizeof(int32_t)) {
    return function(int32_t{});
  } else {
    return with_wide_gradient_type(bits, function);
  }
}

}  // namespace mantissa::kernels
