// Kinds of blocks that hold weights: those of files of other programs, and Mantissa's own groups
// (reference/elements/blocks.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/elements/blocks.h"

namespace mantissa {

// kW4G64: 4 bits, groups of 64.
enum class BlockKind : uint8_t {
  kNone,
  kQ4_0,
  kQ4_1,
  kQ8_0,
  kW4G64,
  kW4G128,
  kW3G32,
  kW3G64,
  kW3G128
};
inline constexpr std::array kBlockKinds = {
    BlockKind::kQ4_0,   BlockKind::kQ4_1,  BlockKind::kQ8_0,  BlockKind::kW4G64,
    BlockKind::kW4G128, BlockKind::kW3G32, BlockKind::kW3G64, BlockKind::kW3G128};

// GGUF files have no others.
constexpr int64_t kGgufBlockWeights = REF_PART_WEIGHTS;
constexpr int64_t kMostBlockWeights = REF_BLOCK_WEIGHTS;

constexpr RefBlockKind ref_kind(BlockKind kind) { return static_cast<RefBlockKind>(kind); }
constexpr int64_t block_bytes(BlockKind kind) { return ref_block_bytes(ref_kind(kind)); }
constexpr int64_t block_weights(BlockKind kind) { return ref_weights_of_block(ref_kind(kind)); }
constexpr int block_bits(BlockKind kind) { return ref_block_bits(ref_kind(kind)); }
constexpr bool is_of_gguf(BlockKind kind) { return kind <= BlockKind::kQ8_0; }

// Bytes of so many weights, whole blocks.
constexpr int64_t bytes_in_blocks(BlockKind kind, int64_t weights) {
  return weights / block_weights(kind) * block_bytes(kind);
}

// The dimensions of a tensor of bytes that holds rows of blocks: [rows, blocks, bytes of a block];
// of Mantissa's own kinds [rows, blocks, words of two bytes, 2]. So they tell the kind.
inline std::vector<int64_t> block_dims(BlockKind kind, int64_t rows, int64_t columns) {
  const int64_t blocks = columns / block_weights(kind), bytes = block_bytes(kind);
  if (is_of_gguf(kind)) return {rows, blocks, bytes};
  return {rows, blocks, bytes / 2, 2};
}
constexpr BlockKind kind_of_dims(std::span<const int64_t> dims) {
  for (const BlockKind kind : kBlockKinds) {
    const bool fits = is_of_gguf(kind)
                          ? dims.size() == 3 && dims[2] == block_bytes(kind)
                          : dims.size() == 4 && 2 * dims[2] == block_bytes(kind) && dims[3] == 2;
    if (fits) return kind;
  }
  return BlockKind::kNone;
}

// "q4_1", as attributes name it.
constexpr const char* block_kind_name(BlockKind kind) {
  constexpr std::array<const char*, 9> kNames = {"none",   "q4_0",  "q4_1",  "q8_0",  "w4g64",
                                                 "w4g128", "w3g32", "w3g64", "w3g128"};
  return kNames[static_cast<size_t>(kind)];
}

constexpr std::optional<BlockKind> block_kind_named(std::string_view name) {
  for (const BlockKind kind : kBlockKinds) {
    if (name == block_kind_name(kind)) return kind;
  }
  return std::nullopt;
}

// "q4_0, q4_1, ... or w3g128".
inline std::string block_kind_names() {
  std::string names;
  for (const BlockKind kind : kBlockKinds) {
    const bool is_last = kind == kBlockKinds.back();
    names += std::string(names.empty() ? "" : is_last ? " or " : ", ") + block_kind_name(kind);
  }
  return names;
}

// The kind without least numbers that has so many bits and weights in a block; kNone: none.
constexpr BlockKind symmetric_kind(int bits, int64_t weights) {
  for (const BlockKind kind : kBlockKinds) {
    if (kind == BlockKind::kQ4_1) continue;
    if (block_bits(kind) == bits && block_weights(kind) == weights) return kind;
  }
  return BlockKind::kNone;
}

}  // namespace mantissa
