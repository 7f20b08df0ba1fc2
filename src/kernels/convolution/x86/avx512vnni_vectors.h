// Small pieces that the AVX-512 VNNI sources share. Include it outside of any region.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)  // g++ 12 warns inside its own intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

#include "base/system/target.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

#define MANTISSA_UNROLL _Pragma("GCC unroll 32")

// Inline assembly because g++ 12 spills accumulators of the intrinsic in nested loops.
MANTISSA_INLINE void multiply_add(__m512i& sum, __m512i unsigned_bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
}

// The lowest `count` of 64, 32 or 16 lanes; all of them if there are more.
inline __mmask64 mask64(int64_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}
inline __mmask32 mask32(int64_t count) {
  return count >= 32 ? ~uint32_t{0} : (uint32_t{1} << count) - 1;
}
inline __mmask16 mask16(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : (uint32_t{1} << count) - 1);
}

// Bytes of lane l, position i come from dword 4 * i + l: gathers the four rows' bytes of 4 columns
// into one lane.
inline __m512i transpose_lanes(__m512i rows) {
  const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, rows), bytes);
}

// Four rows of 16 bytes to [16][4].
inline __m512i interleave4(__m128i r0, __m128i r1, __m128i r2, __m128i r3) {
  __m512i rows = _mm512_castsi128_si512(r0);
  rows = _mm512_mask_broadcast_i32x4(rows, 0x00f0, r1);
  rows = _mm512_mask_broadcast_i32x4(rows, 0x0f00, r2);
  rows = _mm512_mask_broadcast_i32x4(rows, 0xf000, r3);
  return transpose_lanes(rows);
}

// Transposes a 16x16 matrix of dwords.
inline void transpose_dwords(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

inline __m128i load16(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
inline __m256i load32(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

inline void fill_bytes(uint8_t* to, int64_t count, int value) {
  const __m512i fill = _mm512_set1_epi8(static_cast<char>(value));
  for (int64_t i = 0; i < count; i += 64) {
    _mm512_mask_storeu_epi8(to + i, mask64(count - i), fill);
  }
}

}  // namespace
}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
