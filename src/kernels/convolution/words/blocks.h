// Blocks of pixels: all taps and channels of some target pixels of one group of channels.
#pragma once

#include <cstdint>

#include "kernels/convolution/words/words.h"

namespace mantissa::kernels::convolution_words {

// Pixels whose sums are kept in the L1 cache while the weights pass by in pieces.
constexpr int64_t kBlockPixels = 48;

// One task's sums and statistics.
struct Workplace {
  explicit Workplace(const Store& empty) : store(empty) {}

  Store store;
  alignas(32) int32_t sums[kBlockPixels * kGroupChannels];
  alignas(32) int64_t int64_sums[kBlockPixels * kGroupChannels];
};

// The taps and channels of one phase for one group of target channels.
struct Depth {
  const InstructionSet* own = nullptr;
  int64_t taps_y = 0, dwords = 0;              // rows, and dwords of a row
  int64_t row_pitch = 0;                       // bytes between packed rows
  int64_t pixel_step = 0, pixel_row_step = 0;  // bytes between neighbouring targets' sources
  const char* vectors = nullptr;
  int vector_count = 2;
  const int32_t* bias = nullptr;  // of the group, or null
  bool int32_sums = true;         // they fit; else int64
};

// Sums and stores a block of any size (its `sums` are not used). `source` is the source of its
// first pixel.
void run_blocks(const Depth& depth, const char* source, PixelBlock block, Workplace& place);

}  // namespace mantissa::kernels::convolution_words
