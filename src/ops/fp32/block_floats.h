// Weights in blocks as floats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "numerics/block_kind.h"
#include "tensor/tensor.h"

namespace mantissa::ops::fp32 {

// Blocks [begin, end) of a parameter, to the bits of ggml's reference: a weight is exact in units
// of 2^-24, and rounded once.
inline void write_block_floats(const Tensor& weights, BlockKind kind, int64_t begin, int64_t end,
                               float* floats) {
  for (int64_t block = begin; block < end; ++block) {
    int64_t units[kMostBlockWeights];
    ref_block_weights(weights.as<uint8_t>() + block * block_bytes(kind), ref_kind(kind), units);
    floats = std::transform(units, units + block_weights(kind), floats,
                            [](int64_t n) { return static_cast<float>(n) * 0x1p-24f; });
  }
}

}  // namespace mantissa::ops::fp32
