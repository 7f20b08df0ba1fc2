// Weights in blocks as floats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "numerics/block_kind.h"
#include "tensor/tensor.h"

namespace mantissa::ops::fp32 {

// Blocks [begin, end) of a parameter, to the bits of ggml's reference: the product of a step and a
// scale is exact, and a weight rounded once. The sum with 0 gives zeros no sign.
inline void write_block_floats(const Tensor& weights, BlockKind kind, int64_t begin, int64_t end,
                               float* floats) {
  for (int64_t block = begin; block < end; ++block) {
    const uint8_t* const bytes = weights.as<uint8_t>() + block * block_bytes(kind);
    const auto number = [&](int at) {
      return static_cast<float>(ref_half_in_units(bytes + at)) * 0x1p-24f;
    };
    const float scale = number(0), least = kind == BlockKind::kQ4_1 ? number(2) : 0;
    int8_t steps[kMostBlockWeights];
    ref_block_steps(bytes, ref_kind(kind), steps);
    floats = std::transform(steps, steps + block_weights(kind), floats,
                            [&](int8_t step) { return scale * step + least; });
  }
}

}  // namespace mantissa::ops::fp32
