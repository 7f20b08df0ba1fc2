#if defined(__x86_64__)
#include "kernels/convolution/x86/avx512vnni.h"
#include "kernels/convolution/x86/avx512vnni_store.h"
#include "kernels/convolution/x86/avx512vnni_vectors.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
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

// Times 256, in place: g++ 12 spills sums that it shifts into other registers.
MANTISSA_INLINE void shift_to_high_plane(__m512i& sum) { asm("vpslld $8, %0, %0" : "+v"(sum)); }

template <int kCount>
MANTISSA_INLINE bool are_roundable(TileArguments& t, const __m512i (&sums)[kCount]) {
  __m512i low = sums[0], high = sums[0];
  MANTISSA_UNROLL for (int i = 1; i < kCount; ++i) {
    low = _mm512_min_epi32(low, sums[i]);
    high = _mm512_max_epi32(high, sums[i]);
  }
  return is_roundable(t, low, high);
}

template <int kCount>
MANTISSA_INLINE void count_planes(TileArguments& t, const __m512i (&high)[kCount],
                                  const __m512i (&low)[kCount], int pixels, int vectors) {
  __m512i kept[2 * kCount];  // arrays of their own: these sums stay in registers
  MANTISSA_UNROLL for (int i = 0; i < kCount; ++i) {
    kept[i] = high[i];
    kept[kCount + i] = low[i];
  }
  count_sums(t, reinterpret_cast<const int32_t*>(kept),
             reinterpret_cast<const int32_t*>(kept + kCount), pixels, vectors);
}

template <DotMode kMode, int kVectors, int kBases, int kPixels>
__attribute__((noinline)) void tile(TileArguments& t) {
  using Store = typename StoreFor<kMode>::Type;
  constexpr int kCount = kBases * kPixels * kVectors;
  Sums<kBases, kPixels, kVectors> sums;
  __m512i high[kMode == DotMode::kPlanesInt64 ? kCount : 1];
  MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
    const __m512i init = _mm512_loadu_si512(t.init + 16 * v);
    MANTISSA_UNROLL for (int i = v; i < kCount; i += kVectors) sums[i] = init;
  }
  accumulate<kBases, kPixels, kVectors>(sums, t, 0);
  if constexpr (has_two_planes(kMode)) {
    MANTISSA_UNROLL for (int i = 0; i < kCount; ++i) {
      if constexpr (kMode == DotMode::kPlanesInt64) {
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
  if constexpr (kMode == DotMode::kPlanesInt64) {
    if (t.counts != nullptr) [[unlikely]]
      count_planes(t, high, sums, kBases * kPixels, kVectors);
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
        if constexpr (kMode == DotMode::kPlanesInt64) {
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

// Pixels of a segment.
constexpr int kSegmentPixels = 7;

template <DotMode kMode, int kVectors, int kBases>
Tile tile_of_pixels(int64_t pixels) {
  static constexpr Tile kTiles[kSegmentPixels] = {
      tile<kMode, kVectors, kBases, 1>, tile<kMode, kVectors, kBases, 2>,
      tile<kMode, kVectors, kBases, 3>, tile<kMode, kVectors, kBases, 4>,
      tile<kMode, kVectors, kBases, 5>, tile<kMode, kVectors, kBases, 6>,
      tile<kMode, kVectors, kBases, 7>};
  return kTiles[pixels - 1];
}

template <DotMode kMode>
Tile tile_of_mode(int vectors, int bases, int64_t pixels) {
  if (vectors == 2) {
    return bases == 2 ? tile_of_pixels<kMode, 2, 2>(pixels) : tile_of_pixels<kMode, 2, 1>(pixels);
  }
  if (bases == 4) return tile_of_pixels<kMode, 1, 4>(pixels);
  return bases == 2 ? tile_of_pixels<kMode, 1, 2>(pixels) : tile_of_pixels<kMode, 1, 1>(pixels);
}

Tile find_tile(DotMode mode, int vectors, int bases, int64_t pixels) {
  switch (mode) {
    case DotMode::kSums:
      return tile_of_mode<DotMode::kSums>(vectors, bases, pixels);
    case DotMode::kByte:
      return tile_of_mode<DotMode::kByte>(vectors, bases, pixels);
    case DotMode::kWord:
      return tile_of_mode<DotMode::kWord>(vectors, bases, pixels);
    case DotMode::kPlanesInt32:
      return tile_of_mode<DotMode::kPlanesInt32>(vectors, bases, pixels);
    case DotMode::kPlanesInt64:
      return tile_of_mode<DotMode::kPlanesInt64>(vectors, bases, pixels);
  }
  return nullptr;
}

// Up to 28 accumulators.
int most_bases(DotMode, int vectors) { return vectors == 1 ? 4 : 2; }

}  // namespace

// Four segments to a row of folded pixels, which is a multiple of every tile.
const Tiles kAvx512VnniTiles = {.pixels = kSegmentPixels,
                                .folded_width = 4 * kSegmentPixels,
                                .depth_dwords = 1,
                                .most_bases = most_bases,
                                .find = find_tile,
                                .release = [] {}};

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
#endif
