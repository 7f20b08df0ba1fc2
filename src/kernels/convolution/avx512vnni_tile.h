// Register tiles of the dot: sums for up to 28 or 14 target pixels and 16 or 32 target channels.
#pragma once

#include <cstdint>

namespace mantissa::kernels::convolution_avx512vnni {

// What a tile does with its sums.
enum class DotMode {
  kSums,    // one plane, writes int32
  kByte,    // one plane, writes rounded int8
  kWord,    // one plane, writes rounded int16
  kNarrow,  // two planes in one int32 accumulator, writes rounded int16
  kWide,    // two planes apart, combined in int64, writes rounded int16
};

constexpr int kMaximumBases = 4;

// A tile takes `bases` segments of `pixels` adjacent target pixels each.
struct TileArguments {
  const uint8_t* source[kMaximumBases] = {};  // packed source of each segment's first tap
  char* target[kMaximumBases] = {};
  int64_t source_step = 0;  // bytes between neighbouring target pixels
  int64_t target_step = 0;  // bytes
  int64_t row_pitch = 0;    // bytes between tap rows in the packed source
  int64_t plane_bytes = 0;  // to the low plane
  int64_t taps_y = 0, dwords = 0;
  const int8_t* weights = nullptr;  // [tap_y][dword][vectors][16][4]
  const int32_t* init = nullptr;    // [vectors][16]
  uint32_t tail_mask = 0xffff;      // valid lanes of the last vector
  int shift = 0;
  int limit = 0;             // largest result
  uint32_t unsaturated = 0;  // largest magnitude of a wide result that `limit` allows (int32 sums)
  uint32_t roundable_end = 0;  // below it a magnitude is not above `unsaturated`, and plus a half
                               // no overflow
  // Statistics per lane: int32 or, in mode kWide, int64.
  alignas(64) uint64_t maximum[8] = {};
  alignas(64) uint64_t saturated[8] = {};
};

using Tile = void (*)(TileArguments&);

// Segments that a tile of 1 or 2 vectors can take at once: up to 28 accumulators.
constexpr int bases_for(int vectors) { return vectors == 1 ? 4 : 2; }

// vectors 1, 2; bases 1, 2, 4 up to bases_for(vectors); pixels 1..kSegmentPixels.
Tile find_tile(DotMode mode, int vectors, int bases, int pixels);

// Adds up a tile's statistics.
uint64_t tile_maximum(DotMode mode, const TileArguments& arguments);
int64_t tile_saturated(DotMode mode, const TileArguments& arguments);

}  // namespace mantissa::kernels::convolution_avx512vnni
