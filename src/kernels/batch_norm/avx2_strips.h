// What the AVX2 sources of batch norm share: any number of channels seen as strips of 16. Include
// it outside of any region.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/target.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::batch_norm_avx2 {
namespace {

#define MANTISSA_INLINE inline __attribute__((always_inline))

constexpr int64_t kLanes = 16;

MANTISSA_INLINE __m128i load16(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
MANTISSA_INLINE __m256i load32(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
MANTISSA_INLINE void store16(void* to, __m128i values) {
  _mm_storeu_si128(static_cast<__m128i*>(to), values);
}
MANTISSA_INLINE void store32(void* to, __m256i values) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), values);
}

// Sixteen elements, widened to int16.
MANTISSA_INLINE __m256i load_words(const int8_t* from) {
  return _mm256_cvtepi8_epi16(load16(from));
}
MANTISSA_INLINE __m256i load_words(const int16_t* from) { return load32(from); }

// Sixteen words that fit the type.
MANTISSA_INLINE void store_narrow(int16_t* to, __m256i words) { store32(to, words); }
MANTISSA_INLINE void store_narrow(int8_t* to, __m256i words) {
  store16(to, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

// The sum of eight lanes of int32.
MANTISSA_INLINE int64_t sum_lanes(__m256i lanes) {
  int32_t values[8];
  store32(values, lanes);
  int64_t total = 0;
  for (const int32_t value : values) total += value;
  return total;
}

// The sum of sixteen words.
MANTISSA_INLINE int64_t sum_words(__m256i words) {
  return sum_lanes(_mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}

// All ones in the words of the elements that the ReLU behind the batch norm lets through.
template <bool kMasked>
MANTISSA_INLINE __m256i passes(const int8_t* output, int64_t at) {
  if constexpr (!kMasked) return _mm256_set1_epi16(-1);
  return _mm256_cmpgt_epi16(load_words(output + at), _mm256_setzero_si256());
}

// Rows seen as fewer and longer ones, whose length is a multiple of 16: their channel c is channel
// c % channels. Fewer than 16 rows are left over.
struct LongRows {
  int64_t first;     // element at which they begin
  int64_t channels;  // of a long row, which is also the step from one to the next
  int64_t rows;
  int64_t rest_row;  // the first row that is left over

  LongRows(int64_t short_channels, int64_t begin_row, int64_t end_row) {
    const int64_t divisor = std::min(kLanes, short_channels & -short_channels);  // common
    const int64_t folded = kLanes / divisor;
    first = begin_row * short_channels;
    channels = folded * short_channels;
    rows = (end_row - begin_row) / folded;
    rest_row = begin_row + rows * folded;
  }
};

// Sixteen channels of some long rows.
struct Block {
  int64_t at;    // the first element
  int64_t step;  // from row to row
  int64_t rows;
  int64_t channel;  // of the first lane; the next follows, and 0 follows the last
};

// Calls visit(block, strip) for all blocks of at most `height` rows of the strips [begin, end).
// Blocks of the same rows follow each other, so that these are read from the nearest cache.
template <typename Visit>
MANTISSA_INLINE void for_each_block(const LongRows& long_rows, int64_t short_channels,
                                    int64_t begin_strip, int64_t end_strip, int64_t height,
                                    Visit&& visit) {
  for (int64_t row = 0; row < long_rows.rows; row += height) {
    for (int64_t strip = begin_strip; strip < end_strip; ++strip) {
      visit(Block{.at = long_rows.first + row * long_rows.channels + strip * kLanes,
                  .step = long_rows.channels,
                  .rows = std::min(height, long_rows.rows - row),
                  .channel = strip * kLanes % short_channels},
            strip);
    }
  }
}

// Calls visit(lane, channel) for the lanes of a strip whose first lane has this channel.
template <typename Visit>
MANTISSA_INLINE void for_each_lane(int64_t channel, int64_t channels, Visit&& visit) {
  if (channel + kLanes <= channels) {
    for (int64_t lane = 0; lane < kLanes; ++lane) visit(lane, channel + lane);
    return;
  }
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    visit(lane, channel);
    if (++channel == channels) channel = 0;
  }
}

}  // namespace
}  // namespace mantissa::kernels::batch_norm_avx2

MANTISSA_TARGET_END
