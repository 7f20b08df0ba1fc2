// The ends of a dot's tiles on AVX-512: sums are rounded and stored, the largest is noted, and how
// many saturate. Include it outside of any region.
#pragma once

#include "kernels/convolution/x86/avx512vnni.h"
#include "kernels/convolution/x86/avx512vnni_vectors.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

// Writes int32.
struct StoreSums {
  using Result = int32_t;
  static constexpr bool kNeedsRange = false;
  __m512i maximum;

  explicit StoreSums(const TileArguments& t) : maximum(_mm512_load_si512(t.maximum)) {}
  MANTISSA_INLINE void store(char* target, __mmask16 lanes, __m512i sum) {
    maximum = _mm512_max_epu32(maximum, _mm512_abs_epi32(sum));
    _mm512_mask_storeu_epi32(target, lanes, sum);
  }
  void finish(TileArguments& t) { _mm512_store_si512(t.maximum, maximum); }
};

template <typename Result>
MANTISSA_INLINE void store_narrow(char* target, __mmask16 lanes, __m512i numbers) {
  if constexpr (sizeof(Result) == 1) {
    _mm_mask_storeu_epi8(target, lanes, _mm512_cvtepi32_epi8(numbers));
  } else {
    _mm256_mask_storeu_epi16(target, lanes, _mm512_cvtepi32_epi16(numbers));
  }
}

// Rounds int32 sums to int16 or int8; they do not exceed its range. Adds a half, and takes one back
// if a tie became odd.
template <typename Result_>
struct StoreRounded {
  using Result = Result_;
  static constexpr bool kNeedsRange = true;
  __m512i half, rest, odd;
  __m128i shift;

  explicit StoreRounded(const TileArguments& t)
      : half(_mm512_set1_epi32(t.shift > 0 ? 1 << (t.shift - 1) : 0)),
        rest(_mm512_set1_epi32((1 << t.shift) - 1)),
        odd(_mm512_set1_epi32(t.shift > 0 ? 1 : 0)),
        shift(_mm_cvtsi32_si128(t.shift)) {}
  MANTISSA_INLINE __m512i round(__m512i sum) const {
    const __m512i with_half = _mm512_add_epi32(sum, half);
    const __m512i floor = _mm512_sra_epi32(with_half, shift);
    const __mmask16 tie = _mm512_testn_epi32_mask(with_half, rest);
    return _mm512_mask_andnot_epi32(floor, tie, odd, floor);
  }
  MANTISSA_INLINE void store(char* target, __mmask16 lanes, __m512i sum) {
    store_narrow<Result>(target, lanes, round(sum));
  }
  void finish(TileArguments&) {}
};

// Rounds any int32 sums, and counts those that saturate. Adding a half could overflow: rounding
// compares the remainder with it.
template <typename Result>
struct StoreSaturated {
  __m512i saturated, unsaturated, remainder, odd, half, limit;
  __m128i shift;

  explicit StoreSaturated(const TileArguments& t)
      : saturated(_mm512_load_si512(t.saturated)),
        unsaturated(_mm512_set1_epi32(static_cast<int>(t.unsaturated))),
        limit(_mm512_set1_epi32(t.limit)),
        shift(_mm_cvtsi32_si128(t.shift)) {
    const uint32_t mask = t.shift >= 32 ? ~uint32_t{0} : (uint32_t{1} << t.shift) - 1;
    remainder = _mm512_set1_epi32(static_cast<int>(mask));
    half = _mm512_set1_epi32(static_cast<int>((mask >> 1) + (mask != 0 ? 1 : 0)));
    odd = _mm512_set1_epi32(t.shift > 0 && t.shift < 32 ? 1 : 0);
  }
  void store(char* target, __mmask16 lanes, __m512i sum) {
    const __m512i one = _mm512_set1_epi32(1);
    const __mmask16 clipped = _mm512_cmpgt_epu32_mask(_mm512_abs_epi32(sum), unsaturated);
    saturated = _mm512_mask_add_epi32(saturated, clipped, saturated, one);
    __m512i rounded = _mm512_sra_epi32(sum, shift);
    const __m512i rest =
        _mm512_add_epi32(_mm512_and_si512(sum, remainder), _mm512_and_si512(rounded, odd));
    const __mmask16 up = _mm512_cmpgt_epu32_mask(rest, half);
    rounded = _mm512_mask_add_epi32(rounded, up, rounded, one);
    rounded = _mm512_max_epi32(rounded, _mm512_sub_epi32(_mm512_setzero_si512(), limit));
    store_narrow<Result>(target, lanes, _mm512_min_epi32(rounded, limit));
  }
};

// The sums of a tile, [bases][pixels][vectors], if some are out of the range of the result.
template <typename Result>
__attribute__((noinline)) void store_saturated(TileArguments& t, const __m512i* sums, int bases,
                                               int pixels, int vectors) {
  StoreSaturated<Result> store(t);
  for (int b = 0; b < bases; ++b) {
    for (int p = 0; p < pixels; ++p) {
      for (int v = 0; v < vectors; ++v, ++sums) {
        const uint32_t lanes = v == vectors - 1 ? t.tail_mask : 0xffff;
        store.store(t.target[b] + p * t.target_step + 16 * v * int64_t{sizeof(Result)},
                    static_cast<__mmask16>(lanes), *sums);
      }
    }
  }
  _mm512_store_si512(t.saturated, store.saturated);
  if (t.counts != nullptr) {
    const auto* all = reinterpret_cast<const int32_t*>(sums - bases * pixels * vectors);
    count_sums(t, all, bases * pixels, vectors);
  }
}

// Notes the largest magnitude of a tile's sums, which lie between these; returns whether
// StoreRounded may take them all.
MANTISSA_INLINE bool is_roundable(TileArguments& t, __m512i low, __m512i high) {
  const __m512i size = _mm512_max_epu32(_mm512_abs_epi32(low), _mm512_abs_epi32(high));
  _mm512_store_si512(t.maximum, _mm512_max_epu32(_mm512_load_si512(t.maximum), size));
  const __m512i end = _mm512_set1_epi32(static_cast<int>(t.roundable_end));
  return _mm512_cmpge_epu32_mask(size, end) == 0;
}

// Combines two int32 sums in int64 and rounds to int16.
struct StoreWide {
  using Result = int16_t;
  static constexpr bool kNeedsRange = false;
  __m512i maximum, saturated, odd, below_half, limit;
  __m128i shift;

  explicit StoreWide(const TileArguments& t)
      : maximum(_mm512_load_si512(t.maximum)),
        saturated(_mm512_load_si512(t.saturated)),
        odd(_mm512_set1_epi64(t.shift > 0)),
        below_half(_mm512_set1_epi64(t.shift > 0 ? (int64_t{1} << (t.shift - 1)) - 1 : 0)),
        limit(_mm512_set1_epi64(t.limit)),
        shift(_mm_cvtsi32_si128(t.shift)) {}
  MANTISSA_INLINE __m128i narrow(__m256i high, __m256i low) {
    const __m512i wide = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(high), 8),
                                          _mm512_cvtepi32_epi64(low));
    maximum = _mm512_max_epu64(maximum, _mm512_abs_epi64(wide));
    const __m512i tie = _mm512_and_si512(_mm512_sra_epi64(wide, shift), odd);
    const __m512i rounded =
        _mm512_sra_epi64(_mm512_add_epi64(_mm512_add_epi64(wide, below_half), tie), shift);
    const __m512i clipped = _mm512_max_epi64(_mm512_min_epi64(rounded, limit),
                                             _mm512_sub_epi64(_mm512_setzero_si512(), limit));
    saturated = _mm512_mask_add_epi64(saturated, _mm512_cmpneq_epi64_mask(clipped, rounded),
                                      saturated, _mm512_set1_epi64(1));
    return _mm512_cvtepi64_epi16(clipped);
  }
  MANTISSA_INLINE void store(char* target, __mmask16 lanes, __m512i high, __m512i low) {
    const __m128i first = narrow(_mm512_castsi512_si256(high), _mm512_castsi512_si256(low));
    const __m128i second =
        narrow(_mm512_extracti64x4_epi64(high, 1), _mm512_extracti64x4_epi64(low, 1));
    _mm256_mask_storeu_epi16(target, lanes,
                             _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1));
  }
  void finish(TileArguments& t) {
    _mm512_store_si512(t.maximum, maximum);
    _mm512_store_si512(t.saturated, saturated);
  }
};

template <DotMode kMode>
struct StoreFor;
template <>
struct StoreFor<DotMode::kSums> {
  using Type = StoreSums;
};
template <>
struct StoreFor<DotMode::kByte> {
  using Type = StoreRounded<int8_t>;
};
template <>
struct StoreFor<DotMode::kWord> {
  using Type = StoreRounded<int16_t>;
};
template <>
struct StoreFor<DotMode::kPlanesInt32> {
  using Type = StoreRounded<int16_t>;
};
template <>
struct StoreFor<DotMode::kPlanesInt64> {
  using Type = StoreWide;
};

}  // namespace
}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
