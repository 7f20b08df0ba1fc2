#include "onnx/evaluate/copy.h"

#include <algorithm>

#include "onnx/evaluate/loops.h"

namespace mantissa::onnx {

Status copy_strided(OpCall& call, const Dims& dims, const Dims& strides, int64_t start) {
  return with_size(call.type(0), [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const U* in = call.data<U>(0) + start;
    U* out = call.out<U>(0);
    walk(merged({dims, {strides}}),
         [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
           const U* from = in + offsets[0];
           if (steps[0] == 1) {
             out = std::copy_n(from, count, out);
           } else {
             for (int64_t i = 0; i < count; ++i) *out++ = from[i * steps[0]];
           }
         });
    return {};
  });
}

}  // namespace mantissa::onnx
