// The dot's tiles on AMX: a is pixels, 64 bytes of a tap row each, b the packed weights.
#if defined(__x86_64__)
#include "kernels/convolution/x86/avx512vnni.h"
#include "kernels/convolution/x86/avx512vnni_store.h"
#include "kernels/lanes/amx.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

constexpr int64_t kDepthDwords = 16;  // of a product, at most

// Tiles of sums are [planes * bases][vectors].
template <int kSources, int kVectors>
MANTISSA_INLINE void accumulate(const TileArguments& t, int64_t depth,
                                const uint8_t* (&sources)[kSources]) {
  const int8_t* weights = t.weights;
  const int64_t source_step = t.source_step, dwords = t.dwords;
  const int64_t next_row = t.row_pitch - 4 * dwords;
  for (int64_t row = t.taps_y; row > 0; --row) {
    for (int64_t left = dwords; left > 0; left -= depth) {
      amx::for_each_index<kVectors>([&](auto v) __attribute__((always_inline)) {
        amx::load<amx::kB + v>(weights + 64 * v, 64 * kVectors);
      });
      amx::for_each_index<kSources>([&](auto s) __attribute__((always_inline)) {
        constexpr int kA = amx::kA + s % 2;
        amx::load<kA>(sources[s], source_step);
        sources[s] += 4 * depth;
        amx::for_each_index<kVectors>([&](auto v) __attribute__((always_inline)) {
          amx::multiply_unsigned_signed<amx::kSums + s * kVectors + v, kA, amx::kB + v>();
        });
      });
      weights += 64 * kVectors * depth;
    }
    amx::for_each_index<kSources>([&](auto s)
                                      __attribute__((always_inline)) { sources[s] += next_row; });
  }
}

// Sums of a tile in memory, [bases][pixels][vectors]; joined, if two planes are in one sum.
template <DotMode kMode>
struct TileSums {
  const __m512i* sums;
  const __m512i* low_plane;

  MANTISSA_INLINE __m512i operator[](int i) const {
    if constexpr (kMode != DotMode::kPlanesInt32) return sums[i];
    return _mm512_add_epi32(_mm512_slli_epi32(sums[i], 8), low_plane[i]);
  }
};

struct Range {
  __m512i low, high;

  MANTISSA_INLINE void note(__m512i sum) {
    low = _mm512_min_epi32(low, sum);
    high = _mm512_max_epi32(high, sum);
  }
};

// Rounds sums and notes their range, as the other tiles do, but stores 64 bytes at once: the sums
// of one pixel or of several.
template <typename Result, int kVectors>
struct StoreJoined {
  static constexpr int kCount = 4 / sizeof(Result);  // vectors
  static constexpr int kPixels = kCount / kVectors;
  StoreRounded<Result> rounded;
  int64_t step;

  template <typename Sums>
  MANTISSA_INLINE void store(char* to, const Sums& sums, int first, Range& range) {
    __m512i numbers[kCount];
    MANTISSA_UNROLL for (int i = 0; i < kCount; ++i) {
      const __m512i sum = sums[first + i];
      range.note(sum);
      numbers[i] = rounded.round(sum);
    }
    __m512i joined = _mm512_packs_epi32(numbers[0], numbers[1]);
    if constexpr (kCount == 4) {
      joined = _mm512_packs_epi16(joined, _mm512_packs_epi32(numbers[2], numbers[3]));
      joined = _mm512_permutexvar_epi32(
          _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), joined);
    } else {
      joined = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), joined);
    }
    if (kPixels == 1 || step == 64 / kPixels) {
      _mm512_storeu_si512(to, joined);
    } else if constexpr (kPixels == 2) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(joined));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + step),
                          _mm512_extracti64x4_epi64(joined, 1));
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(joined));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + step), _mm512_extracti32x4_epi32(joined, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * step),
                       _mm512_extracti32x4_epi32(joined, 2));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * step),
                       _mm512_extracti32x4_epi32(joined, 3));
    }
  }
};

template <typename Result, int kVectors, int kBases, typename Sums>
MANTISSA_INLINE void round_all(TileArguments& t, const Sums& sums, Range& range) {
  using Joined = StoreJoined<Result, kVectors>;
  Joined joined = {StoreRounded<Result>(t), t.target_step};
  const int pixels = t.pixels;
  const auto tail = static_cast<__mmask16>(t.tail_mask);
  const int whole = tail == 0xffff ? pixels - pixels % Joined::kPixels : 0;
  int i = 0;
  for (int b = 0; b < kBases; ++b) {
    char* target = t.target[b];
    int p = 0;
    for (; p < whole; p += Joined::kPixels, i += Joined::kCount) {
      joined.store(target, sums, i, range);
      target += Joined::kPixels * t.target_step;
    }
    for (; p < pixels; ++p, target += t.target_step) {
      MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v, ++i) {
        const __m512i sum = sums[i];
        range.note(sum);
        joined.rounded.store(target + 16 * v * int64_t{sizeof(Result)},
                             v == kVectors - 1 ? tail : static_cast<__mmask16>(0xffff), sum);
      }
    }
  }
}

// Rounds and stores all sums at once. If some turn out not to fit, or this cannot be known before,
// it stores them with saturation.
template <typename Result, int kVectors, int kBases, typename Sums>
MANTISSA_INLINE void store_rounded(TileArguments& t, const Sums& sums) {
  const int count = kBases * t.pixels * kVectors;
  Range range = {sums[0], sums[0]};
  if (t.roundable_end > 0) {
    round_all<Result, kVectors, kBases>(t, sums, range);
  } else {
    for (int i = 1; i < count; ++i) range.note(sums[i]);
  }
  if (is_roundable(t, range.low, range.high)) return;
  __m512i kept[kBases * amx::kRows * kVectors];
  for (int i = 0; i < count; ++i) kept[i] = sums[i];
  store_saturated<Result>(t, kept, kBases, t.pixels, kVectors);
}

// Writes sums, or rounds the sums of two separate planes.
template <DotMode kMode, int kVectors, int kBases>
MANTISSA_INLINE void store_wide(TileArguments& t, const __m512i* sums, const __m512i* low_plane) {
  using Store = typename StoreFor<kMode>::Type;
  Store store(t);
  const auto tail = static_cast<__mmask16>(t.tail_mask);
  int i = 0;
  for (int b = 0; b < kBases; ++b) {
    char* target = t.target[b];
    for (int p = 0; p < t.pixels; ++p, target += t.target_step) {
      MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v, ++i) {
        const auto lanes = v == kVectors - 1 ? tail : static_cast<__mmask16>(0xffff);
        char* to = target + 16 * v * int64_t{sizeof(typename Store::Result)};
        if constexpr (kMode == DotMode::kPlanesInt64) {
          store.store(to, lanes, sums[i], low_plane[i]);
        } else {
          store.store(to, lanes, sums[i]);
        }
      }
    }
  }
  store.finish(t);
}

// Rows of a are as long as shallow tap rows are: 64 bytes would cross more cache lines.
int64_t configure(TileArguments& t) {
  const int64_t depth = smaller(t.dwords, kDepthDwords);
  const int64_t wanted = 64 * t.pixels + depth;
  if (t.configured != wanted) amx::configure(t.pixels, static_cast<int>(depth));
  t.configured = wanted;
  return depth;
}

template <DotMode kMode, int kVectors, int kBases>
__attribute__((noinline)) void tile(TileArguments& t) {
  using Store = typename StoreFor<kMode>::Type;
  constexpr int kPlanes = has_two_planes(kMode) ? 2 : 1;
  constexpr int kSources = kPlanes * kBases;
  const int64_t depth = configure(t);
  const uint8_t* sources[kSources];
  for (int s = 0; s < kSources; ++s) {
    sources[s] = t.source[s % kBases] + (s < kBases ? 0 : t.plane_bytes);
  }
  amx::for_each_index<kSources>([&](auto s) __attribute__((always_inline)) {
    amx::for_each_index<kVectors>([&](auto v) __attribute__((always_inline)) {
      constexpr int kTile = amx::kSums + s * kVectors + v;
      if constexpr (s < kBases) {
        amx::load<kTile>(t.init + 16 * v, 0);
      } else {
        amx::clear<kTile>();
      }
    });
  });
  accumulate<kSources, kVectors>(t, depth, sources);
  __m512i sums[kPlanes * kBases * amx::kRows * kVectors];  // [planes][bases][pixels][vectors]
  const int tile_vectors = t.pixels * kVectors;
  amx::for_each_index<kSources>([&](auto s) __attribute__((always_inline)) {
    amx::for_each_index<kVectors>([&](auto v) __attribute__((always_inline)) {
      amx::store<amx::kSums + s * kVectors + v>(sums + s * tile_vectors + v, 64 * kVectors);
    });
  });
  const __m512i* low_plane = sums + kBases * tile_vectors;
  if constexpr (Store::kNeedsRange) {
    store_rounded<typename Store::Result, kVectors, kBases>(t, TileSums<kMode>{sums, low_plane});
  } else {
    if (kMode == DotMode::kPlanesInt64 && t.counts != nullptr) [[unlikely]] {
      count_sums(t, reinterpret_cast<const int32_t*>(sums),
                 reinterpret_cast<const int32_t*>(low_plane), kBases * t.pixels, kVectors);
    }
    store_wide<kMode, kVectors, kBases>(t, sums, low_plane);
  }
}

template <DotMode kMode>
Tile tile_of_mode(int vectors, int bases) {
  if (vectors == 2) {
    if constexpr (!has_two_planes(kMode)) {
      if (bases == 2) return tile<kMode, 2, 2>;
    }
    return tile<kMode, 2, 1>;
  }
  if constexpr (!has_two_planes(kMode)) {
    if (bases == 4) return tile<kMode, 1, 4>;
  }
  return bases == 2 ? tile<kMode, 1, 2> : tile<kMode, 1, 1>;
}

Tile find_tile(DotMode mode, int vectors, int bases, int64_t) {
  switch (mode) {
    case DotMode::kSums:
      return tile_of_mode<DotMode::kSums>(vectors, bases);
    case DotMode::kByte:
      return tile_of_mode<DotMode::kByte>(vectors, bases);
    case DotMode::kWord:
      return tile_of_mode<DotMode::kWord>(vectors, bases);
    case DotMode::kPlanesInt32:
      return tile_of_mode<DotMode::kPlanesInt32>(vectors, bases);
    case DotMode::kPlanesInt64:
      return tile_of_mode<DotMode::kPlanesInt64>(vectors, bases);
  }
  return nullptr;
}

// Four tiles of sums.
int most_bases(DotMode mode, int vectors) { return 4 / (vectors * (has_two_planes(mode) ? 2 : 1)); }

}  // namespace

const Tiles kAmxTiles = {.pixels = amx::kRows,
                         .folded_width = 2 * amx::kRows,
                         .depth_dwords = kDepthDwords,
                         .most_bases = most_bases,
                         .find = find_tile,
                         .release = amx::release};

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
#endif
