// Trained tables of rows: of embeddings, positions and tokens in front of a sequence.
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "numerics/exponent.h"

namespace mantissa::ops {

constexpr int64_t kMostRows = int64_t{1} << 24;

constexpr int64_t kMostPrepended = 1024;

inline Parameter table_of(int64_t rows, int64_t channels) {
  return {.name = "weights",
          .shape = Shape{rows, channels},
          .initialiser = Initialiser::kFanInUniform,
          .fan_in = channels,
          .decays = true};
}

// Rows may have exponents of their own, up to kMostChannelSpread below the largest.
inline int least_exponent(const Tensor& table) {
  return table.blocks == 1 ? *table.exponent : table.largest_exponent() - kMostChannelSpread;
}

}  // namespace mantissa::ops
