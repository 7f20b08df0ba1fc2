// Kinds of blocks in which files of other programs hold weights (reference/elements/blocks.h).
#pragma once

#include <array>
#include <cstdint>

#include "reference/elements/blocks.h"

namespace mantissa {

enum class BlockKind : uint8_t { kNone, kQ4_0, kQ4_1, kQ8_0 };

constexpr int64_t kBlockWeights = REF_BLOCK_WEIGHTS;

constexpr RefBlockKind ref_kind(BlockKind kind) { return static_cast<RefBlockKind>(kind); }
constexpr int64_t block_bytes(BlockKind kind) { return ref_block_bytes(ref_kind(kind)); }

// "q4_1", as attributes name it.
constexpr const char* block_kind_name(BlockKind kind) {
  constexpr std::array<const char*, 4> kNames = {"none", "q4_0", "q4_1", "q8_0"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace mantissa
