#include "device/text/packed_weights.h"

#include <algorithm>
#include <bit>

namespace mantissa::device {
namespace {

// Zeros below all mantissas.
int common_shift(std::span<const int8_t> weights) {
  unsigned all = 0;
  for (const int8_t weight : weights) all |= static_cast<uint8_t>(weight);
  return all == 0 ? 0 : std::countr_zero(all);
}

PackedWeights without_words(std::span<const int8_t> weights) {
  PackedWeights packed;
  packed.bits = packed_bits(weights);
  if (packed.bits < 8) packed.shift = common_shift(weights);
  return packed;
}

// Appends mantissas, filled up with zeros, as words that are `step` apart.
void put_line(const PackedWeights& packed, std::span<const int8_t> line, size_t step,
              std::span<int64_t> words) {
  for (size_t i = 0; i < line.size(); ++i) {
    const size_t fours = 8 / static_cast<size_t>(packed.bits);
    const uint32_t field =
        static_cast<uint32_t>(line[i] >> packed.shift) & ((1u << packed.bits) - 1);
    const size_t four = i / 4 % fours, byte = i % 4;
    const size_t bit = 8 * byte + 8 - static_cast<size_t>(packed.bits) * (four + 1);
    words[i / (4 * fours) * step] |= int64_t{field} << bit;
  }
}

size_t words_for(size_t count, int bits) {
  const auto in_word = static_cast<size_t>(per_word(bits));
  return (count + in_word - 1) / in_word;
}

}  // namespace

int packed_bits(std::span<const int8_t> weights) {
  const int shift = common_shift(weights);
  const auto fits = [&](int bits) {
    return std::ranges::all_of(weights, [&](int8_t weight) {
      const int mantissa = weight >> shift;
      return mantissa >= -(1 << (bits - 1)) && mantissa < 1 << (bits - 1);
    });
  };
  return fits(2) ? 2 : fits(4) ? 4 : 8;
}

PackedWeights pack_pairs(std::span<const int8_t> weights, int64_t groups, int64_t channels) {
  PackedWeights packed = without_words(weights);
  const size_t all = static_cast<size_t>(groups * channels), size = weights.size() / all;
  const size_t words = words_for(size, packed.bits), of_group = static_cast<size_t>(channels);
  const size_t pairs = (of_group + 1) / 2;
  packed.words.resize(static_cast<size_t>(groups) * pairs * 2 * words);
  for (size_t o = 0; o < all; ++o) {
    const size_t pair = o / of_group * pairs + o % of_group / 2;
    const size_t first = pair * 2 * words + o % of_group % 2;
    put_line(packed, weights.subspan(o * size, size), 2, std::span(packed.words).subspan(first));
  }
  return packed;
}

PackedWeights pack_taps(std::span<const int8_t> weights, int64_t channels) {
  PackedWeights packed = without_words(weights);
  const auto count = static_cast<size_t>(channels);
  const size_t taps = weights.size() / count, words = words_for(count, packed.bits);
  packed.words.resize(taps * words);
  std::vector<int8_t> line(count);
  for (size_t tap = 0; tap < taps; ++tap) {
    for (size_t c = 0; c < count; ++c) line[c] = weights[c * taps + tap];
    put_line(packed, line, 1, std::span(packed.words).subspan(tap * words));
  }
  return packed;
}

}  // namespace mantissa::device
