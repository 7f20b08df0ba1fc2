#if defined(__x86_64__)
#include "kernels/convolution/x86/avx512vnni.h"
#include "kernels/convolution/x86/avx512vnni_vectors.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

// Sums of the weights of 16 channels, and of their magnitudes.
struct ColumnSums {
  __m512i sum;
  __m512i magnitude;

  void add(__m512i weights) {
    const __m512i ones = _mm512_set1_epi8(1);
    sum = _mm512_dpbusd_epi32(sum, ones, weights);
    magnitude = _mm512_dpbusd_epi32(magnitude, _mm512_abs_epi8(weights), ones);
  }
  void finish(const int32_t* bias, __mmask16 channels, const PackedBlock& packed) const {
    __m512i init = _mm512_setzero_si512();
    if (bias != nullptr) init = _mm512_maskz_loadu_epi32(channels, bias);
    init = _mm512_sub_epi32(init, _mm512_slli_epi32(sum, 7));
    _mm512_storeu_si512(packed.init, init);
    if (packed.magnitude != nullptr) *packed.magnitude = _mm512_reduce_max_epi32(magnitude);
  }
};

// 16 rows of 64 int8 (fewer by `bytes` and `rows`), `pitch` apart, to up to 16 vectors [16][4].
void pack_rows(const int8_t* from, int64_t pitch, int64_t rows, int64_t bytes, int8_t* to,
               int64_t stride, ColumnSums& sums) {
  const __mmask64 valid = mask64(bytes);
  __m512i r[16];
  for (int i = 0; i < 16; ++i) {
    const bool exists = i < rows;
    r[i] = _mm512_maskz_loadu_epi8(exists ? valid : 0, from + (exists ? i * pitch : 0));
  }
  transpose_dwords(r);
  const int64_t dwords = smaller(16, ceil_div(bytes, 4));
  if (dwords == 16) {
    for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * stride, r[i]);
    for (int i = 0; i < 16; ++i) sums.add(r[i]);
    return;
  }
  for (int64_t i = 0; i < dwords; ++i) {
    _mm512_store_si512(to + i * stride, r[i]);
    sums.add(r[i]);
  }
}

// The dwords of a tap row that are left.
void fill_row(int64_t dwords, int64_t stride, int8_t*& to) {
  for (; dwords > 0; --dwords, to += stride) _mm512_store_si512(to, _mm512_setzero_si512());
}

// Walks the (tap_x, source channel) rows of transposed weights, one row of channels at a time.
struct TapRows {
  const int8_t* row;        // of the current (tap, o); channels are adjacent
  const int8_t* tap;        // of (tap, 0)
  int64_t tap_step, pitch;  // to the next tap, to the next o
  int64_t o = 0, count_o, left;
  __mmask16 channels;

  __m128i next() {
    if (left == 0) return _mm_setzero_si128();
    const __m128i values = _mm_maskz_loadu_epi8(channels, row);
    --left;
    row += pitch;
    if (++o == count_o && left > 0) {
      o = 0;
      tap += tap_step;
      row = tap;
    }
    return values;
  }
};

void copy_biased(const int8_t* from, int64_t count, uint8_t* to) {
  const __m512i bias = _mm512_set1_epi8(-128);
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), bias));
  }
  if (i == count) return;
  const __mmask64 valid = mask64(count - i);
  const __m512i values = _mm512_maskz_loadu_epi8(valid, from + i);
  _mm512_mask_storeu_epi8(to + i, valid, _mm512_xor_si512(values, bias));
}

// Low bytes of the words of a and b, in order.
inline __m512i join_bytes(__m512i a, __m512i b) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(a, b));
}

constexpr int64_t kFetchedAhead = 1024;  // gradients

void copy_planes(const int16_t* from, int64_t count, uint8_t* high, uint8_t* low) {
  const __m512i bias = _mm512_set1_epi8(-128);
  const __m512i low_byte = _mm512_set1_epi16(255);
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 valid = mask64(count - i);
    // Rows are too short for the processor to fetch ahead by itself.
    __builtin_prefetch(from + i + kFetchedAhead);
    __builtin_prefetch(from + i + kFetchedAhead + 32);
    const __m512i a = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid), from + i);
    const __m512i b = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid >> 32), from + i + 32);
    const __m512i top = join_bytes(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
    const __m512i bottom = join_bytes(_mm512_and_si512(a, low_byte), _mm512_and_si512(b, low_byte));
    _mm512_mask_storeu_epi8(high + i, valid, _mm512_xor_si512(top, bias));
    _mm512_mask_storeu_epi8(low + i, valid, bottom);
  }
}

void pack_forward_weights(const ConvolutionShape& s, const int8_t* weights, const int32_t* bias,
                          int64_t first, const PackedBlock& packed) {
  const int64_t run = s.kernel_width * s.in_channels;
  const int64_t pitch = s.kernel_height * run;
  const int64_t rows = smaller(16, s.out_channels - first);
  ColumnSums sums = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  int8_t* to = packed.weights;
  for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
    const int8_t* from = weights + first * pitch + ky * run;
    for (int64_t i = 0; i < run; i += 64) {
      pack_rows(from + i, pitch, rows, run - i, to, packed.stride, sums);
      to += smaller(16, ceil_div(run - i, 4)) * packed.stride;
    }
    fill_row(packed.row_dwords - ceil_div(run, 4), packed.stride, to);
  }
  sums.finish(bias == nullptr ? nullptr : bias + first, mask16(rows), packed);
}

void pack_grad_input_weights(const ConvolutionShape& s, const int8_t* weights,
                             const AxisPhase& phase_y, const AxisPhase& phase_x, int64_t first,
                             const PackedBlock& packed) {
  const __mmask16 channels = mask16(s.in_channels - first);
  ColumnSums sums = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  int8_t* to = packed.weights;
  for (int64_t y = 0; y < phase_y.taps && phase_x.taps > 0; ++y) {
    const int64_t ky = phase_y.first_kernel + y * phase_y.kernel_step;
    const int8_t* tap =
        weights + (ky * s.kernel_width + phase_x.first_kernel) * s.in_channels + first;
    TapRows rows{.row = tap,
                 .tap = tap,
                 .tap_step = phase_x.kernel_step * s.in_channels,
                 .pitch = s.kernel_height * s.kernel_width * s.in_channels,
                 .count_o = s.out_channels,
                 .left = phase_x.taps * s.out_channels,
                 .channels = channels};
    while (rows.left > 0) {
      const __m128i r0 = rows.next();
      const __m128i r1 = rows.next();
      const __m128i r2 = rows.next();
      const __m128i r3 = rows.next();
      const __m512i dwords = interleave4(r0, r1, r2, r3);
      _mm512_store_si512(to, dwords);
      sums.add(dwords);
      to += packed.stride;
    }
    fill_row(packed.row_dwords - ceil_div(phase_x.taps * s.out_channels, 4), packed.stride, to);
  }
  sums.finish(nullptr, channels, packed);
}

void pack_bytes(const Dot& dot, const int8_t* image, const Window& window, uint8_t* packed) {
  const int64_t channels = dot.source_channels;
  for (int64_t row = 0; row < window.rows; ++row) {
    const RowParts parts = row_parts(dot, window, row);
    fill_bytes(packed, parts.left * channels, 128);
    packed += parts.left * channels;
    const int8_t* from = image + ((window.first_row + row) * dot.decimation * dot.source_width +
                                  parts.from * dot.decimation) *
                                     channels;
    if (dot.decimation == 1) {
      copy_biased(from, parts.copied * channels, packed);
    } else {
      for (int64_t x = 0; x < parts.copied; ++x) {
        copy_biased(from + x * dot.decimation * channels, channels, packed + x * channels);
      }
    }
    packed += parts.copied * channels;
    fill_bytes(packed, parts.right * channels, 128);
    packed += parts.right * channels;
  }
}

void pack_planes(const Dot& dot, const int16_t* image, const Window& window, int64_t plane_bytes,
                 uint8_t* packed) {
  const int64_t channels = dot.source_channels;
  for (int64_t row = 0; row < window.rows; ++row) {
    const RowParts parts = row_parts(dot, window, row);
    fill_bytes(packed, parts.left * channels, 128);
    fill_bytes(packed + plane_bytes, parts.left * channels, 0);
    packed += parts.left * channels;
    const int16_t* from =
        image + ((window.first_row + row) * dot.source_width + parts.from) * channels;
    copy_planes(from, parts.copied * channels, packed, packed + plane_bytes);
    packed += parts.copied * channels;
    fill_bytes(packed, parts.right * channels, 128);
    fill_bytes(packed + plane_bytes, parts.right * channels, 0);
    packed += parts.right * channels;
  }
}

}  // namespace

const DotPacking kDotPacking = {pack_forward_weights, pack_grad_input_weights, pack_bytes,
                                pack_planes};

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
#endif
