// A dot's sums are written as int32, or rounded and clipped to int8 or int16.
#pragma once

#include <cstdint>

#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/statistics.h"
#include "kernels/convolution/words/tile.h"

namespace mantissa::kernels::convolution_words {

enum class TargetType { kInt32, kInt16, kInt8 };
constexpr int64_t target_bytes(TargetType type) {
  return type == TargetType::kInt32 ? 4 : type == TargetType::kInt16 ? 2 : 1;
}

// How sums are written, and the statistics of those that were. int32 sums must stay below 2^31 when
// half of 2^shift is added; int64 sums below 2^40.
struct Store {
  TargetType type = TargetType::kInt32;
  int shift = 0;
  int64_t limit = 0;         // of results; unused for kInt32
  uint32_t unsaturated = 0;  // largest magnitude of an int32 sum that is not clipped
  alignas(32) uint32_t maximum[8] = {};
  alignas(32) int64_t int64_maximum[4] = {};
  int64_t saturated = 0;
  WideCounts* counts = nullptr;  // of the sums, if they are counted

  Store(TargetType target, int shift_bits, int64_t largest);
  WideStatistics statistics() const;
  void add(const WideStatistics& part);
};

// A block of target pixels of one group of channels.
struct PixelBlock {
  int32_t* sums = nullptr;  // [row][column][vector][8], 32-byte aligned
  int vectors = 2;
  int64_t channels = 16;  // of the group: at most 8 * vectors
  int64_t rows = 1, columns = 0;
  char* target = nullptr;
  int64_t row_step = 0, column_step = 0;  // bytes in the target

  int64_t sum_count() const { return rows * columns * vectors * kLanes; }
};

// How one instruction set writes sums.
struct Stores {
  void (*block)(Store& store, const PixelBlock& block);
  // As `block`, for sums int64 of the same order; uses up block.sums. Not for kInt32.
  void (*int64_block)(Store& store, const PixelBlock& block, const int64_t* sums);
  // to[0, count) += sums[0, count), or = if `first`, then clears sums; count a multiple of 8.
  void (*add_to_int64)(int32_t* sums, int64_t count, bool first, int64_t* to);
  // The same modulo 2^32.
  void (*add_to_int32)(int32_t* sums, int64_t count, bool first, int32_t* to);
};

}  // namespace mantissa::kernels::convolution_words
