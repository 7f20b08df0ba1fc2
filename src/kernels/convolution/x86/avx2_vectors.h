// Small pieces that the AVX2 sources share. Include it outside of any region.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/system/target.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {
namespace {

#define MANTISSA_UNROLL _Pragma("GCC unroll 32")

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

// 16 elements, widened to int16.
template <typename T>
MANTISSA_INLINE __m256i load_words(const T* from) {
  if constexpr (sizeof(T) == 2) return load32(from);
  return _mm256_cvtepi8_epi16(load16(from));
}

// Ones in the lowest `count` <= 16 words.
MANTISSA_INLINE __m256i word_mask(int64_t count) {
  alignas(16) static constexpr int8_t kMasks[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                    -1, -1, -1, -1, -1, 0,  0,  0,  0,  0,  0,
                                                    0,  0,  0,  0,  0,  0,  0,  0,  0,  0};
  return _mm256_cvtepi8_epi16(load16(kMasks + 16 - count));
}

// The first `count` <= 16 elements, widened to int16, zeros after them. Reads nothing from `end`
// on.
template <typename T>
MANTISSA_INLINE __m256i load_words(const T* from, int64_t count, const T* end) {
  if (count == 16) return load_words(from);
  if (end - from >= 16) return _mm256_and_si256(load_words(from), word_mask(count));
  T values[16] = {};
  std::memcpy(values, from, static_cast<size_t>(count) * sizeof(T));
  return load_words(values);
}

// Transposes an 8x8 matrix of dwords.
inline void transpose_dwords(__m256i (&r)[8]) {
  __m256i t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

// Words a0 b0 a1 b1 .. of the lower and upper 8 lanes.
MANTISSA_INLINE void interleave_words(__m256i a, __m256i b, __m256i& lower, __m256i& upper) {
  const __m256i low = _mm256_unpacklo_epi16(a, b);
  const __m256i high = _mm256_unpackhi_epi16(a, b);
  lower = _mm256_permute2x128_si256(low, high, 0x20);
  upper = _mm256_permute2x128_si256(low, high, 0x31);
}

}  // namespace
}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
