// Copies of numbers of any type, which nobody looks at.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

// Calls function.operator()<U>(), where U is an unsigned type with as many bytes as the element
// type.
template <typename Function>
Status with_size(ElementType type, Function&& function) {
  switch (element_bits(type)) {
    case 8:
      return function.template operator()<uint8_t>();
    case 16:
      return function.template operator()<uint16_t>();
    case 32:
      return function.template operator()<uint32_t>();
    case 64:
      return function.template operator()<uint64_t>();
    default:
      return invalid_input(std::string("values of type ") + element_name(type) +
                           " are not supported here");
  }
}

// Makes output 0 of `dims`: the numbers of input 0 at `start` and by these strides.
Status copy_strided(OpCall& call, const Dims& dims, const Dims& strides, int64_t start);

}  // namespace mantissa::onnx
