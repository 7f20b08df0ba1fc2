// Weights in words, as the loops of device/runtime/words.h read them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mantissa::device {

// Weights are mantissas * 2^shift, with the fewest bits that hold all of them.
struct PackedWeights {
  int bits = 8;  // 8, 4 or 2
  int shift = 0;
  std::vector<int64_t> words;
};

// The bits that weights are packed with.
int packed_bits(std::span<const int8_t> weights);
// Mantissas in a word.
constexpr int64_t per_word(int bits) { return 32 / bits; }

// The weights of a convolution, [groups, channels, K]: two channels at a time.
PackedWeights pack_pairs(std::span<const int8_t> weights, int64_t groups, int64_t channels);
// The weights of a depthwise convolution, [channels, taps]: tap by tap.
PackedWeights pack_taps(std::span<const int8_t> weights, int64_t channels);

}  // namespace mantissa::device
