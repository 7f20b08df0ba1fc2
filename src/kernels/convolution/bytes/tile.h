// Tiles of the dot: sums for some target pixels and 16 or 32 target channels.
#pragma once

#include <cstdint>

#include "kernels/bit_counts/wide_counts.h"

namespace mantissa::kernels::convolution_bytes {

// How a tile sums, and the type that it writes.
enum class DotMode {
  kSums,         // one plane, writes int32
  kByte,         // one plane, writes rounded int8
  kWord,         // one plane, writes rounded int16
  kPlanesInt32,  // two planes in one int32 accumulator, writes rounded int16
  kPlanesInt64,  // two planes apart, combined in int64, writes rounded int16
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
  int pixels = 0;
  int64_t taps_y = 0, dwords = 0;   // as run_dwords() says
  const int8_t* weights = nullptr;  // [tap_y][dword][vectors][16][4]
  const int32_t* init = nullptr;    // [vectors][16]
  uint32_t tail_mask = 0xffff;      // valid lanes of the last vector
  int shift = 0;
  int limit = 0;             // largest result
  uint32_t unsaturated = 0;  // largest magnitude of a wide result that `limit` allows (int32 sums)
  uint32_t roundable_end = 0;    // below it a magnitude is not above `unsaturated`, and plus a half
                                 // no overflow
  WideCounts* counts = nullptr;  // of wide results, if they are counted
  int64_t configured = 0;        // the shape that AMX's tiles are configured for
  // Statistics per lane: int32 or, in mode kWide, int64.
  alignas(64) uint64_t maximum[8] = {};
  alignas(64) uint64_t saturated[8] = {};
};

// Counts the sums of a tile, [pixels of all segments][vectors][16]. From then on only tiles with
// larger ones are not roundable.
void count_sums(TileArguments& t, const int32_t* sums, int64_t pixels, int vectors);
// The same of two planes, high * 2^8 + low.
void count_sums(TileArguments& t, const int32_t* high, const int32_t* low, int64_t pixels,
                int vectors);

using Tile = void (*)(TileArguments&);

constexpr bool has_two_planes(DotMode mode) {
  return mode == DotMode::kPlanesInt32 || mode == DotMode::kPlanesInt64;
}

// The tiles of one instruction set.
struct Tiles {
  int64_t pixels;        // the most of a segment
  int64_t folded_width;  // of pixels if rows do not matter (linear layers, 1x1 convolutions)
  int64_t depth_dwords;  // that one instruction takes
  // The most segments that a tile of 1 or 2 vectors can take at once: 1, 2 or 4.
  int (*most_bases)(DotMode mode, int vectors);
  // bases 1, 2, 4 up to the most; pixels from 1 on.
  Tile (*find)(DotMode mode, int vectors, int bases, int64_t pixels);
  void (*release)();  // called when a thread's task is done
};

}  // namespace mantissa::kernels::convolution_bytes
