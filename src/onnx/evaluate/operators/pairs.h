// Loops over two values that broadcast, number by number.
#pragma once

#include "onnx/evaluate/call.h"
#include "onnx/evaluate/loops.h"

namespace mantissa::onnx {

// out[i] = function(a[i], b[i]), with the loop's usual forms written out so that they vectorise.
template <typename A, typename B, typename Out, typename Function>
void combine(const Dims& a_dims, const A* a, const Dims& b_dims, const B* b, const Dims& dims,
             Out* out, Function function) {
  const Loops loops =
      merged({dims, {broadcast_strides(a_dims, dims), broadcast_strides(b_dims, dims)}});
  walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
    const A* x = a + offsets[0];
    const B* y = b + offsets[1];
    if (steps[0] == 1 && steps[1] == 1) {
      for (int64_t i = 0; i < count; ++i) out[i] = function(x[i], y[i]);
    } else if (steps[0] == 1 && steps[1] == 0) {
      const B value = *y;
      for (int64_t i = 0; i < count; ++i) out[i] = function(x[i], value);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = function(x[i * steps[0]], y[i * steps[1]]);
    }
    out += count;
  });
}

}  // namespace mantissa::onnx
