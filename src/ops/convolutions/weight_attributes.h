// The grid, or the blocks, of weights that a layer's attributes name.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "numerics/weight_grid.h"
#include "ops/attributes.h"

namespace mantissa::ops {

inline WeightGrid weight_grid(const LayerAttributes& attributes) {
  const int bits = attributes.weight_bits;
  if (bits == 0) return {};
  return {.bits = bits,
          .is_full = attributes.weight_range == WeightRange::kFull,
          .stops = attributes.weight_stops};
}

// An attribute that says in which blocks weights are kept.
template <auto kMember>
constexpr AttributeSpec kWeightBlocks =
    text<kMember>("weight_blocks", "none",
                  "none q4_0 q4_1 q8_0 w4g64 w4g128 w3g32 w3g64 w3g128");

// Keeps weights in blocks if the attribute says so. Blocks are not trained, and a node trains all
// of its parameters or none.
inline void keep_in_blocks(BlockKind kind, std::vector<Parameter>& parameters) {
  if (kind == BlockKind::kNone) return;
  parameters[0].storage = Storage::kBlocks;
  parameters[0].blocks = kind;
  for (Parameter& parameter : parameters) parameter.trained = parameter.decays = false;
}

// An error if rows of weights are no whole number of blocks.
inline Status check_blocks(BlockKind kind, int64_t row) {
  if (kind == BlockKind::kNone || row % block_weights(kind) == 0) return {};
  return invalid_input("weight_blocks: rows of " + std::to_string(row) +
                       " weights are no whole number of blocks of " +
                       std::to_string(block_weights(kind)));
}

}  // namespace mantissa::ops
