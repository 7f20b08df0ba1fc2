// Tiles of gemm.h for instruction sets.
#pragma once

#include <cstdint>

namespace mantissa::onnx {

// c[kTileRows][kTileColumns] = a b: for each k of `depth`, kTileRows numbers of a and kTileColumns
// of b.
using MultiplyTile = void (*)(const float* a, const float* b, int64_t depth, float* c);

#if defined(__x86_64__)
void multiply_tile_avx2(const float* a, const float* b, int64_t depth, float* c);
#endif

}  // namespace mantissa::onnx
