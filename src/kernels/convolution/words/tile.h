// The register tile that all three convolutions share: int16 x int16 products in int32.
#pragma once

#include <cstdint>

namespace mantissa::kernels::convolution_words {

// Channels of one vector, and of the largest tile. If registers hold fewer, a tile takes several
// for a vector.
constexpr int kLanes = 8;
constexpr int kGroupChannels = 16;
constexpr int kTilePixels = 6;

// sums[pixel][lane] += sum over depth of source[pixel][depth] * vectors[depth][lane]; a depth is
// two adjacent int16. Depth runs through three nested loops over the source, outermost first; the
// vectors of successive depths are adjacent.
struct TileArguments {
  const char* source = nullptr;
  int64_t pixel_step = 0;  // bytes
  int64_t count[3] = {1, 1, 1};
  int64_t step[3] = {0, 0, 0};    // bytes
  const char* vectors = nullptr;  // int16 [depth][vector][8][2], 32-byte aligned
  int32_t* sums = nullptr;        // [pixel][vector][8], 32-byte aligned
};

using Tile = void (*)(const TileArguments&);

// The tiles of one instruction set, by vectors - 1 and pixels - 1.
struct Tiles {
  Tile of[2][kTilePixels];
};

// Vectors that `channels` channels of a group need.
constexpr int vectors_for(int64_t channels) { return channels > kLanes ? 2 : 1; }

}  // namespace mantissa::kernels::convolution_words
