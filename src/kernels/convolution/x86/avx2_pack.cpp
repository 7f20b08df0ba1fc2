#if defined(__x86_64__)
#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx2_vectors.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {

namespace {

// Up to 8 rows of up to 16 int8, `pitch` apart, to [8 dwords][8 rows] `step` words apart.
void pack_rows(const int8_t* from, int64_t pitch, int64_t rows, int64_t count, const int8_t* end,
               int16_t* to, int64_t step) {
  __m256i r[8];
  for (int i = 0; i < 8; ++i) {
    r[i] = i < rows ? load_words(from + i * pitch, count, end) : _mm256_setzero_si256();
  }
  transpose_dwords(r);
  const int64_t dwords = ceil_div(count, 2);
  for (int64_t i = 0; i < dwords; ++i) store32(to + i * step, r[i]);
}

// Joins rows of 16 channels' weights to pairs, and sums their magnitudes.
class PairWriter {
 public:
  PairWriter(int vectors, int16_t* to)
      : vectors_(vectors),
        to_(to),
        sums_{_mm256_setzero_si256(), _mm256_setzero_si256()},
        waiting_(_mm256_setzero_si256()) {}

  MANTISSA_INLINE void add(__m256i row) {
    if (!has_waiting_) {
      waiting_ = row;
    } else {
      write(row);
    }
    has_waiting_ = !has_waiting_;
  }
  // Ends a tap row: an odd last row is paired with zeros.
  void finish_row() {
    if (has_waiting_) add(_mm256_setzero_si256());
  }
  // The largest sum of |weights| of a channel.
  int32_t largest() const {
    alignas(32) int32_t lanes[8];
    store32(lanes, _mm256_max_epi32(sums_[0], sums_[1]));
    int32_t result = 0;
    for (const int32_t lane : lanes) result = lane > result ? lane : result;
    return result;
  }

 private:
  MANTISSA_INLINE void write(__m256i row) {
    __m256i pairs[2];
    interleave_words(waiting_, row, pairs[0], pairs[1]);
    MANTISSA_UNROLL for (int v = 0; v < 2; ++v) {
      const __m256i sizes = _mm256_madd_epi16(_mm256_abs_epi16(pairs[v]), _mm256_set1_epi16(1));
      sums_[v] = _mm256_add_epi32(sums_[v], sizes);
      if (v < vectors_) store32(to_ + 16 * v, pairs[v]);
    }
    to_ += 16 * vectors_;
  }

  int vectors_;
  int16_t* to_;
  __m256i sums_[2];
  __m256i waiting_;
  bool has_waiting_ = false;
};

void copy_words(const int16_t* from, int64_t count, int16_t* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(int16_t));
}

void copy_words(const int8_t* from, int64_t count, int16_t* to) {
  if (count < 16) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + 16 < count; i += 16) {
    store32(to + i, _mm256_cvtepi8_epi16(load16(from + i)));
  }
  const int64_t last = count - 16;  // may overlap
  store32(to + last, _mm256_cvtepi8_epi16(load16(from + last)));
}

int16_t* clear_words(int16_t* to, int64_t count) {
  std::memset(to, 0, static_cast<size_t>(count) * sizeof(int16_t));
  return to + count;
}

void pack_forward_weights(const ConvolutionShape& s, const int8_t* weights, int64_t first,
                          int16_t* packed) {
  const int64_t run = s.kernel_width * s.in_channels;
  const int64_t pitch = s.kernel_height * run;
  const int64_t channels = smaller(kGroupChannels, s.out_channels - first);
  const int vectors = vectors_for(channels);
  const int64_t step = 16 * vectors;
  for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
    const int8_t* from = weights + first * pitch + ky * run;
    for (int64_t i = 0; i < run; i += 16) {
      const int64_t count = smaller(16, run - i);
      for (int v = 0; v < vectors; ++v) {
        const int64_t rows = smaller(kLanes, channels - v * kLanes);
        pack_rows(from + v * kLanes * pitch + i, pitch, rows, count, weights + s.weights_count(),
                  packed + 16 * v, step);
      }
      packed += ceil_div(count, 2) * step;
    }
  }
}

int32_t pack_grad_input_weights(const ConvolutionShape& s, const int8_t* weights,
                                const AxisPhase& phase_y, const AxisPhase& phase_x, int64_t first,
                                int16_t* packed) {
  const int64_t channels = smaller(kGroupChannels, s.in_channels - first);
  const int vectors = vectors_for(channels);
  const int64_t pitch = s.kernel_height * s.kernel_width * s.in_channels;
  const int8_t* end = weights + s.weights_count();
  PairWriter writer(vectors, packed);
  for (int64_t y = 0; y < phase_y.taps; ++y) {
    const int64_t ky = phase_y.first_kernel + y * phase_y.kernel_step;
    for (int64_t x = 0; x < phase_x.taps; ++x) {
      const int64_t kx = phase_x.first_kernel + x * phase_x.kernel_step;
      const int8_t* row = weights + (ky * s.kernel_width + kx) * s.in_channels + first;
      if (channels == kGroupChannels) {
        for (int64_t o = 0; o < s.out_channels; ++o, row += pitch) writer.add(load_words(row));
      } else {
        for (int64_t o = 0; o < s.out_channels; ++o, row += pitch) {
          writer.add(load_words(row, channels, end));
        }
      }
    }
    writer.finish_row();
  }
  return writer.largest();
}

template <typename T>
void pack_window(const Dot& dot, const T* image, const Window& window, int16_t* packed) {
  const int64_t channels = dot.source_channels;
  for (int64_t row = 0; row < window.rows; ++row) {
    const RowParts parts = row_parts(dot, window, row);
    packed = clear_words(packed, parts.left * channels);
    const int64_t pixel =
        (window.first_row + row) * dot.decimation * dot.source_width + parts.from * dot.decimation;
    if (dot.decimation == 1) {
      if (parts.copied > 0) copy_words(image + pixel * channels, parts.copied * channels, packed);
    } else {
      for (int64_t x = 0; x < parts.copied; ++x) {
        copy_words(image + (pixel + x * dot.decimation) * channels, channels,
                   packed + x * channels);
      }
    }
    packed = clear_words(packed + parts.copied * channels, parts.right * channels);
  }
}

}  // namespace

const DotPacking kDotPacking = {pack_forward_weights, pack_grad_input_weights, pack_window<int8_t>,
                                pack_window<int16_t>};

}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
#endif
