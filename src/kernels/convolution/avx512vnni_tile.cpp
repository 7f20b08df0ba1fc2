#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_tile.h"

#include "kernels/convolution/avx512vnni_bytes.h"
#include "kernels/convolution/avx512vnni_geometry.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_avx512vnni {
namespace {

// Distances of pixels 1..6 of a segment are sums of scaled registers: no pointer per pixel needed.
struct PixelSteps {
  int64_t one, three, five;
};

// Four bytes of pixel `pixel` of a segment in all lanes. The tile reads memory that was written
// before it was called only, so the asm needs no memory operand.
MANTISSA_INLINE __m512i broadcast_pixel(const uint8_t* segment, const PixelSteps& s, int pixel) {
  __m512i r;
  switch (pixel) {
    case 0:
      asm("vpbroadcastd (%1), %0" : "=v"(r) : "r"(segment));
      break;
    case 1:
      asm("vpbroadcastd (%1,%2), %0" : "=v"(r) : "r"(segment), "r"(s.one));
      break;
    case 2:
      asm("vpbroadcastd (%1,%2,2), %0" : "=v"(r) : "r"(segment), "r"(s.one));
      break;
    case 3:
      asm("vpbroadcastd (%1,%2), %0" : "=v"(r) : "r"(segment), "r"(s.three));
      break;
    case 4:
      asm("vpbroadcastd (%1,%2,4), %0" : "=v"(r) : "r"(segment), "r"(s.one));
      break;
    case 5:
      asm("vpbroadcastd (%1,%2), %0" : "=v"(r) : "r"(segment), "r"(s.five));
      break;
    default:
      asm("vpbroadcastd (%1,%2,2), %0" : "=v"(r) : "r"(segment), "r"(s.three));
      break;
  }
  return r;
}

// [bases][pixels][vectors]
template <int kBases, int kPixels, int kVectors>
using Sums = __m512i[kBases * kPixels * kVectors];

// sums += all taps and channels of one plane.
template <int kBases, int kPixels, int kVectors>
MANTISSA_INLINE void accumulate(Sums<kBases, kPixels, kVectors>& sums, const TileArguments& t,
                                int64_t plane) {
  const PixelSteps steps = {t.source_step, 3 * t.source_step, 5 * t.source_step};
  const uint8_t* segments[kBases];
  MANTISSA_UNROLL for (int b = 0; b < kBases; ++b) segments[b] = t.source[b] + plane;
  const int8_t* weights = t.weights;
  const int64_t dwords = t.dwords;
  const int64_t next_row = t.row_pitch - 4 * dwords;
  for (int64_t row = t.taps_y; row > 0; --row) {
    for (int64_t dword = dwords; dword > 0; --dword) {
      const auto* vectors = reinterpret_cast<const __m512i*>(weights);
      __m512i w[kVectors];
      MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) w[v] = _mm512_load_si512(vectors + v);
      MANTISSA_UNROLL for (int b = 0; b < kBases; ++b) {
        MANTISSA_UNROLL for (int p = 0; p < kPixels; ++p) {
          const __m512i x = broadcast_pixel(segments[b], steps, p);
          MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
            multiply_add(sums[(b * kPixels + p) * kVectors + v], x, w[v]);
          }
        }
        segments[b] += 4;
      }
      weights += 64 * kVectors;
    }
    MANTISSA_UNROLL for (int b = 0; b < kBases; ++b) segments[b] += next_row;
  }
}

// Times 256, where it is: g++ 12 spills sums that it shifts into other registers.
MANTISSA_INLINE void shift_to_high_plane(__m512i& sum) { asm("vpslld $8, %0, %0" : "+v"(sum)); }

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

// Rounds int32 sums to int16 or int8, whose range they do not exceed: adds a half, and where that
// made an odd number of a tie takes one back.
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
  MANTISSA_INLINE void store(char* target, __mmask16 lanes, __m512i sum) {
    const __m512i with_half = _mm512_add_epi32(sum, half);
    const __m512i floor = _mm512_sra_epi32(with_half, shift);
    const __mmask16 tie = _mm512_testn_epi32_mask(with_half, rest);
    store_narrow<Result>(target, lanes, _mm512_mask_andnot_epi32(floor, tie, odd, floor));
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

// The sums of a tile, [bases][pixels][vectors], where some are out of the range of the result.
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
}

// Notes the largest magnitude of a tile's sums; returns whether StoreRounded may take them all.
template <int kCount>
MANTISSA_INLINE bool are_roundable(TileArguments& t, const __m512i (&sums)[kCount]) {
  __m512i low = sums[0], high = sums[0];
  MANTISSA_UNROLL for (int i = 1; i < kCount; ++i) {
    low = _mm512_min_epi32(low, sums[i]);
    high = _mm512_max_epi32(high, sums[i]);
  }
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
struct StoreFor<DotMode::kNarrow> {
  using Type = StoreRounded<int16_t>;
};
template <>
struct StoreFor<DotMode::kWide> {
  using Type = StoreWide;
};

template <DotMode kMode, int kVectors, int kBases, int kPixels>
__attribute__((noinline)) void tile(TileArguments& t) {
  using Store = typename StoreFor<kMode>::Type;
  constexpr bool kTwoPlanes = kMode == DotMode::kNarrow || kMode == DotMode::kWide;
  constexpr int kCount = kBases * kPixels * kVectors;
  Sums<kBases, kPixels, kVectors> sums;
  __m512i high[kMode == DotMode::kWide ? kCount : 1];
  MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
    const __m512i init = _mm512_loadu_si512(t.init + 16 * v);
    MANTISSA_UNROLL for (int i = v; i < kCount; i += kVectors) sums[i] = init;
  }
  accumulate<kBases, kPixels, kVectors>(sums, t, 0);
  if constexpr (kTwoPlanes) {
    MANTISSA_UNROLL for (int i = 0; i < kCount; ++i) {
      if constexpr (kMode == DotMode::kWide) {
        high[i] = sums[i];
        sums[i] = _mm512_setzero_si512();
      } else {
        shift_to_high_plane(sums[i]);
      }
    }
    accumulate<kBases, kPixels, kVectors>(sums, t, t.plane_bytes);
  }
  if constexpr (Store::kNeedsRange) {
    if (!are_roundable(t, sums)) {
      __m512i kept[kCount];  // an array of its own: these sums stay in registers
      MANTISSA_UNROLL for (int i = 0; i < kCount; ++i) kept[i] = sums[i];
      return store_saturated<typename Store::Result>(t, kept, kBases, kPixels, kVectors);
    }
  }
  Store store(t);
  const int64_t target_step = t.target_step;
  const auto tail = static_cast<__mmask16>(t.tail_mask);
  MANTISSA_UNROLL for (int b = 0; b < kBases; ++b) {
    char* target = t.target[b];
    MANTISSA_UNROLL for (int p = 0; p < kPixels; ++p) {
      MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
        const int i = (b * kPixels + p) * kVectors + v;
        const auto lanes = v == kVectors - 1 ? tail : static_cast<__mmask16>(0xffff);
        char* to = target + 16 * v * int64_t{sizeof(typename Store::Result)};
        if constexpr (kMode == DotMode::kWide) {
          store.store(to, lanes, high[i], sums[i]);
        } else {
          store.store(to, lanes, sums[i]);
        }
      }
      target += target_step;
    }
  }
  store.finish(t);
}

template <DotMode kMode, int kVectors, int kBases>
Tile tile_of_pixels(int pixels) {
  static constexpr Tile kTiles[kSegmentPixels] = {
      tile<kMode, kVectors, kBases, 1>, tile<kMode, kVectors, kBases, 2>,
      tile<kMode, kVectors, kBases, 3>, tile<kMode, kVectors, kBases, 4>,
      tile<kMode, kVectors, kBases, 5>, tile<kMode, kVectors, kBases, 6>,
      tile<kMode, kVectors, kBases, 7>};
  return kTiles[pixels - 1];
}

template <DotMode kMode>
Tile tile_of_mode(int vectors, int bases, int pixels) {
  if (vectors == 2) {
    return bases == 2 ? tile_of_pixels<kMode, 2, 2>(pixels) : tile_of_pixels<kMode, 2, 1>(pixels);
  }
  if (bases == 4) return tile_of_pixels<kMode, 1, 4>(pixels);
  return bases == 2 ? tile_of_pixels<kMode, 1, 2>(pixels) : tile_of_pixels<kMode, 1, 1>(pixels);
}

}  // namespace

Tile find_tile(DotMode mode, int vectors, int bases, int pixels) {
  switch (mode) {
    case DotMode::kSums:
      return tile_of_mode<DotMode::kSums>(vectors, bases, pixels);
    case DotMode::kByte:
      return tile_of_mode<DotMode::kByte>(vectors, bases, pixels);
    case DotMode::kWord:
      return tile_of_mode<DotMode::kWord>(vectors, bases, pixels);
    case DotMode::kNarrow:
      return tile_of_mode<DotMode::kNarrow>(vectors, bases, pixels);
    case DotMode::kWide:
      return tile_of_mode<DotMode::kWide>(vectors, bases, pixels);
  }
  return nullptr;
}

uint64_t tile_maximum(DotMode mode, const TileArguments& t) {
  const __m512i maximum = _mm512_load_si512(t.maximum);
  return mode == DotMode::kWide ? _mm512_reduce_max_epu64(maximum)
                                : _mm512_reduce_max_epu32(maximum);
}

int64_t tile_saturated(DotMode mode, const TileArguments& t) {
  const __m512i saturated = _mm512_load_si512(t.saturated);
  if (mode == DotMode::kWide) return _mm512_reduce_add_epi64(saturated);
  const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(saturated));
  const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(saturated, 1));
  return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

}  // namespace mantissa::kernels::convolution_avx512vnni

MANTISSA_TARGET_END
#endif
