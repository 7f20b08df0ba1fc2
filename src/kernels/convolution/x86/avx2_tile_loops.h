// The register tile for one way to multiply and add: define multiply_add and multiply_add_last
// (uses up `pairs`), then include this in a region and an anonymous namespace.

// Distances of pixels 1..5 are scaled registers: no pointer per pixel needed.
struct PixelSteps {
  int64_t one, three, five;
};

// Two words of a pixel in all lanes. The tile reads memory that was written before it was called
// only, so the asm needs no memory operand.
MANTISSA_INLINE __m256i broadcast_pixel(const char* source, const PixelSteps& s, int pixel) {
  __m256i r;
  switch (pixel) {
    case 0:
      asm("vpbroadcastd (%1), %0" : "=x"(r) : "r"(source));
      break;
    case 1:
      asm("vpbroadcastd (%1,%2), %0" : "=x"(r) : "r"(source), "r"(s.one));
      break;
    case 2:
      asm("vpbroadcastd (%1,%2,2), %0" : "=x"(r) : "r"(source), "r"(s.one));
      break;
    case 3:
      asm("vpbroadcastd (%1,%2), %0" : "=x"(r) : "r"(source), "r"(s.three));
      break;
    case 4:
      asm("vpbroadcastd (%1,%2,4), %0" : "=x"(r) : "r"(source), "r"(s.one));
      break;
    default:
      asm("vpbroadcastd (%1,%2), %0" : "=x"(r) : "r"(source), "r"(s.five));
      break;
  }
  return r;
}

template <int kVectors, int kPixels>
__attribute__((noinline)) void tile(const TileArguments& t) {
  __m256i sums[kPixels][kVectors];
  auto* in_memory = reinterpret_cast<__m256i*>(t.sums);
  MANTISSA_UNROLL for (int i = 0; i < kPixels * kVectors; ++i) {
    sums[i / kVectors][i % kVectors] = _mm256_load_si256(in_memory + i);
  }
  const PixelSteps steps = {t.pixel_step, 3 * t.pixel_step, 5 * t.pixel_step};
  const int64_t depth_step = t.step[2];
  const char* vectors = t.vectors;
  const char* outer = t.source;
  for (int64_t i = t.count[0]; i > 0; --i, outer += t.step[0]) {
    const char* row = outer;
    for (int64_t j = t.count[1]; j > 0; --j, row += t.step[1]) {
      const char* source = row;
      for (int64_t k = t.count[2]; k > 0; --k) {
        __m256i w[kVectors];
        MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
          w[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(vectors) + v);
        }
        MANTISSA_UNROLL for (int p = 0; p < kPixels; ++p) {
          __m256i pairs = broadcast_pixel(source, steps, p);
          if constexpr (kVectors == 2) multiply_add(sums[p][0], pairs, w[0]);
          multiply_add_last(sums[p][kVectors - 1], pairs, w[kVectors - 1]);
        }
        source += depth_step;
        vectors += 32 * kVectors;
      }
    }
  }
  MANTISSA_UNROLL for (int i = 0; i < kPixels * kVectors; ++i) {
    _mm256_store_si256(in_memory + i, sums[i / kVectors][i % kVectors]);
  }
}

constexpr Tiles kTiles = {
    {{tile<1, 1>, tile<1, 2>, tile<1, 3>, tile<1, 4>, tile<1, 5>, tile<1, 6>},
     {tile<2, 1>, tile<2, 2>, tile<2, 3>, tile<2, 4>, tile<2, 5>, tile<2, 6>}}};
