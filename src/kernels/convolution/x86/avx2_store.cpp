#if defined(__x86_64__)
#include <algorithm>
#include <numeric>

#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx2_vectors.h"
#include "numerics/rounding.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {
namespace {

// int64 sums are below 2^40: larger shifts leave nothing either.
constexpr int kLargestInt64Shift = 48;

MANTISSA_INLINE __m256i load_sums(const int32_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

// Rounds int32 sums to nearest even.
struct Round {
  __m256i below_half, odd;
  __m128i shift;

  explicit Round(int bits)
      : below_half(_mm256_set1_epi32(bits > 0 ? (1 << (bits - 1)) - 1 : 0)),
        odd(_mm256_set1_epi32(bits > 0)),
        shift(_mm_cvtsi32_si128(bits)) {}
  MANTISSA_INLINE __m256i operator()(__m256i sum) const {
    const __m256i tie = _mm256_and_si256(_mm256_sra_epi32(sum, shift), odd);
    return _mm256_sra_epi32(_mm256_add_epi32(_mm256_add_epi32(sum, below_half), tie), shift);
  }
};

// Fewer than 2 * kLargest bytes, without calling a function for them.
template <int64_t kLargest>
MANTISSA_INLINE void copy_tail(char* to, const char* from, int64_t bytes) {
  MANTISSA_UNROLL for (int64_t part = kLargest; part > 0; part /= 2) {
    if ((bytes & part) == 0) continue;
    std::memcpy(to, from, static_cast<size_t>(part));
    to += part;
    from += part;
  }
}

// One pixel's results; only the first `channels` if there are not 8 or 16.
template <typename T>
MANTISSA_INLINE void put(char* target, int64_t channels, __m256i words) {
  const __m128i low = _mm256_castsi256_si128(words);
  const __m128i high = _mm256_extracti128_si256(words, 1);
  alignas(32) T values[16];
  if constexpr (sizeof(T) == 2) {
    if (channels == 16) return store32(target, words);
    if (channels == 8) return store16(target, low);
    store32(values, words);
  } else {
    const __m128i bytes = _mm_packs_epi16(low, high);
    if (channels == 16) return store16(target, bytes);
    if (channels == 8) return _mm_storel_epi64(reinterpret_cast<__m128i*>(target), bytes);
    store16(values, bytes);
  }
  constexpr int64_t kBytes = sizeof(T);
  copy_tail<8 * kBytes>(target, reinterpret_cast<const char*>(values), channels * kBytes);
}

// Keeps the largest magnitudes of int32 sums.
struct Maximum {
  __m256i lanes;

  MANTISSA_INLINE __m256i seen(__m256i sum) {
    lanes = _mm256_max_epu32(lanes, _mm256_abs_epi32(sum));
    return sum;
  }
};

template <typename T, int kVectors>
__m256i round_block(const PixelBlock& block, int shift, int64_t limit) {
  Maximum maximum{_mm256_setzero_si256()};
  const Round round(shift);
  const __m256i most = _mm256_set1_epi16(static_cast<int16_t>(limit));
  const __m256i least = _mm256_set1_epi16(static_cast<int16_t>(-limit));
  const int32_t* sums = block.sums;
  for (int64_t y = 0; y < block.rows; ++y) {
    char* target = block.target + y * block.row_step;
    for (int64_t x = 0; x < block.columns; ++x) {
      const __m256i first = round(maximum.seen(load_sums(sums)));
      const __m256i second = kVectors == 2 ? round(maximum.seen(load_sums(sums + 8))) : first;
      const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
      put<T>(target, block.channels, _mm256_max_epi16(_mm256_min_epi16(words, most), least));
      sums += kLanes * kVectors;
      target += block.column_step;
    }
  }
  return maximum.lanes;
}

__m256i copy_block(const PixelBlock& block) {
  Maximum maximum{_mm256_setzero_si256()};
  const int32_t* sums = block.sums;
  for (int64_t y = 0; y < block.rows; ++y) {
    char* target = block.target + y * block.row_step;
    for (int64_t x = 0; x < block.columns; ++x) {
      const __m256i first = maximum.seen(load_sums(sums));
      if (block.channels >= 8) store32(target, first);
      if (block.vectors == 2) maximum.seen(load_sums(sums + 8));
      if (block.channels == 16) {
        store32(target + 32, load_sums(sums + 8));
      } else if (block.channels != 8) {
        const int64_t done = block.channels & 8;
        copy_tail<16>(target + 4 * done, reinterpret_cast<const char*>(sums + done),
                      4 * (block.channels - done));
      }
      sums += kLanes * block.vectors;
      target += block.column_step;
    }
  }
  return maximum.lanes;
}

template <typename T>
__m256i round_block(const PixelBlock& block, int shift, int64_t limit) {
  if (block.vectors == 2) return round_block<T, 2>(block, shift, limit);
  return round_block<T, 1>(block, shift, limit);
}

// Returns the largest magnitudes of the sums.
__m256i write_block(TargetType type, const PixelBlock& block, int shift, int64_t limit) {
  if (type == TargetType::kInt32) return copy_block(block);
  if (type == TargetType::kInt16) return round_block<int16_t>(block, shift, limit);
  return round_block<int8_t>(block, shift, limit);
}

int64_t count_saturated(const Store& store, const PixelBlock& block) {
  const __m256i most = _mm256_set1_epi32(static_cast<int>(store.unsaturated));
  __m256i counts = _mm256_setzero_si256();
  for (int64_t i = 0; i < block.sum_count(); i += kLanes) {
    const __m256i size = _mm256_abs_epi32(load_sums(block.sums + i));
    counts = _mm256_sub_epi32(counts, _mm256_cmpgt_epi32(size, most));
  }
  alignas(32) int32_t lanes[8];
  store32(lanes, counts);
  return std::accumulate(lanes, lanes + 8, int64_t{0});
}

// Four int64 sums, rounded and clipped.
struct RoundInt64 {
  __m256i bias, below_half, odd, bias_after, limit;
  __m128i shift;

  RoundInt64(int bits, int64_t largest) {
    // Shifts are logical: a bias keeps the sums positive, and its rounded value even.
    constexpr int64_t kBias = int64_t{1} << 60;
    bits = std::min(bits, kLargestInt64Shift);
    bias = _mm256_set1_epi64x(kBias);
    bias_after = _mm256_set1_epi64x(kBias >> bits);
    below_half = _mm256_set1_epi64x(bits > 0 ? (int64_t{1} << (bits - 1)) - 1 : 0);
    odd = _mm256_set1_epi64x(bits > 0);
    limit = _mm256_set1_epi64x(largest);
    shift = _mm_cvtsi32_si128(bits);
  }
  // The result; `clipped` is -1 if it was clipped.
  MANTISSA_INLINE __m256i operator()(__m256i sum, __m256i& clipped) const {
    const __m256i biased = _mm256_add_epi64(sum, bias);
    const __m256i tie = _mm256_and_si256(_mm256_srl_epi64(biased, shift), odd);
    const __m256i up = _mm256_add_epi64(_mm256_add_epi64(biased, below_half), tie);
    const __m256i rounded = _mm256_sub_epi64(_mm256_srl_epi64(up, shift), bias_after);
    const __m256i minus_limit = _mm256_sub_epi64(_mm256_setzero_si256(), limit);
    const __m256i above = _mm256_cmpgt_epi64(rounded, limit);
    const __m256i below = _mm256_cmpgt_epi64(minus_limit, rounded);
    clipped = _mm256_or_si256(above, below);
    return _mm256_blendv_epi8(_mm256_blendv_epi8(rounded, limit, above), minus_limit, below);
  }
};

void store_block(Store& store, const PixelBlock& block) {
  const __m256i maximum = write_block(store.type, block, store.shift, store.limit);
  auto* all = reinterpret_cast<__m256i*>(store.maximum);
  _mm256_store_si256(all, _mm256_max_epu32(_mm256_load_si256(all), maximum));
  if (store.type == TargetType::kInt32) return;
  const __m256i most = _mm256_set1_epi32(static_cast<int>(store.unsaturated));
  const __m256i above = _mm256_cmpgt_epi32(maximum, most);
  if (_mm256_testz_si256(above, above) == 0) store.saturated += count_saturated(store, block);
}

void store_int64_block(Store& store, const PixelBlock& block, const int64_t* sums) {
  const RoundInt64 round(store.shift, store.limit);
  const __m256i low_words = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  auto* all = reinterpret_cast<__m256i*>(store.int64_maximum);
  __m256i maximum = _mm256_load_si256(all);
  __m256i clipped_count = _mm256_setzero_si256();
  for (int64_t i = 0; i < block.sum_count(); i += 4) {
    const __m256i sum = load32(sums + i);
    const __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), sum);
    const __m256i size = _mm256_sub_epi64(_mm256_xor_si256(sum, sign), sign);
    maximum = _mm256_blendv_epi8(maximum, size, _mm256_cmpgt_epi64(size, maximum));
    __m256i clipped;
    const __m256i result = round(sum, clipped);
    clipped_count = _mm256_sub_epi64(clipped_count, clipped);
    store16(block.sums + i, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(result, low_words)));
  }
  _mm256_store_si256(all, maximum);
  alignas(32) int64_t counts[4];
  store32(counts, clipped_count);
  for (const int64_t count : counts) store.saturated += count;
  write_block(store.type, block, 0, store.limit);
}

void add_to_int64(int32_t* sums, int64_t count, bool first, int64_t* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    __m256i low = _mm256_cvtepi32_epi64(load16(sums + i));
    __m256i high = _mm256_cvtepi32_epi64(load16(sums + i + 4));
    if (!first) {
      low = _mm256_add_epi64(low, load32(to + i));
      high = _mm256_add_epi64(high, load32(to + i + 4));
    }
    store32(to + i, low);
    store32(to + i + 4, high);
    store32(sums + i, _mm256_setzero_si256());
  }
}

void add_to_int32(int32_t* sums, int64_t count, bool first, int32_t* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    __m256i sum = load32(sums + i);
    if (!first) sum = _mm256_add_epi32(sum, load32(to + i));
    store32(to + i, sum);
    store32(sums + i, _mm256_setzero_si256());
  }
}

}  // namespace

const Stores kStores = {store_block, store_int64_block, add_to_int64, add_to_int32};

}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
#endif
