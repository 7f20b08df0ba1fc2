#include <cstdint>

#include "base/system/target.h"
#include "onnx/evaluate/gemm/gemm.h"
#include "onnx/evaluate/gemm/kernels.h"

#if defined(__x86_64__)
MANTISSA_TARGET_AVX2_BEGIN
#include "onnx/evaluate/gemm/tile.h"

namespace mantissa::onnx {

void multiply_tile_avx2(const float* a, const float* b, int64_t depth, float* c) {
  multiply_tile(a, b, depth, c);
}

}  // namespace mantissa::onnx
MANTISSA_TARGET_END
#endif
