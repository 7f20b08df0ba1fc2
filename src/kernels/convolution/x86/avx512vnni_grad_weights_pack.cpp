// Before and after the products of grad_weights: packing, and rescaling into the totals.
#if defined(__x86_64__)
#include <bit>

#include "kernels/convolution/x86/avx512vnni.h"
#include "kernels/convolution/x86/avx512vnni_vectors.h"
#include "numerics/rounding.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

// The destination of the next 16 adjacent channels of four images, in bytes from the first: the
// next panel, and after the last the next pixel of the first one.
class PanelPlace {
 public:
  PanelPlace(int64_t panels, int64_t stride)
      : step_(panels > 1 ? stride : 64),
        panels_(panels > 1 ? panels : INT64_MAX),  // all in a row: never the last
        left_(panels_) {}
  int64_t operator()() const { return at_; }
  void advance() {
    at_ += step_;
    if (--left_ > 0) return;
    at_ += 64 - panels_ * step_;
    left_ = panels_;
  }

 private:
  int64_t step_, panels_, left_, at_ = 0;
};

constexpr int64_t kFetchedAhead = 1024;  // bytes

// Four images' adjacent elements, to biased bytes [count][4].
void pack_input(const int8_t* const (&images)[4], int64_t offset, int64_t count, PanelPlace place,
                uint8_t* to) {
  const __m512i bias = _mm512_set1_epi8(-128);
  const int8_t* r0 = images[0] + offset;
  const int8_t* r1 = images[1] + offset;
  const int8_t* r2 = images[2] + offset;
  const int8_t* r3 = images[3] + offset;
  int64_t i = 0;
  for (; i + 16 <= count; i += 16, place.advance()) {
    if (i % 64 == 0) {  // the processor foresees four images badly
      for (const int8_t* image : {r0, r1, r2, r3}) __builtin_prefetch(image + i + kFetchedAhead);
    }
    const __m512i x = interleave4(load16(r0 + i), load16(r1 + i), load16(r2 + i), load16(r3 + i));
    _mm512_storeu_si512(to + place(), _mm512_xor_si512(x, bias));
  }
  if (i == count) return;
  const __mmask16 valid = mask16(count - i);
  const __m512i x =
      interleave4(_mm_maskz_loadu_epi8(valid, r0 + i), _mm_maskz_loadu_epi8(valid, r1 + i),
                  _mm_maskz_loadu_epi8(valid, r2 + i), _mm_maskz_loadu_epi8(valid, r3 + i));
  _mm512_mask_storeu_epi32(to + place(), valid, _mm512_xor_si512(x, bias));
}

// Bytes of four rows, as packs_epi16([r0 r1], [r2 r3]) leaves them, to [16][4].
inline __m512i transpose_packed(__m512i packed) {
  const __m512i dwords = _mm512_setr_epi32(0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15);
  const __m512i bytes =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, packed), bytes);
}

// Gradients of four images, to [16][4] bytes of each plane.
struct GradBytes {
  __m512i high, low;
};
inline GradBytes split_grads(__m256i r0, __m256i r1, __m256i r2, __m256i r3) {
  const __m512i low_byte = _mm512_set1_epi16(255);
  const __m512i bias = _mm512_set1_epi8(-128);
  const __m512i a = _mm512_inserti64x4(_mm512_castsi256_si512(r0), r1, 1);
  const __m512i b = _mm512_inserti64x4(_mm512_castsi256_si512(r2), r3, 1);
  const __m512i high = _mm512_packs_epi16(_mm512_srai_epi16(a, 8), _mm512_srai_epi16(b, 8));
  const __m512i low =
      _mm512_packus_epi16(_mm512_and_si512(a, low_byte), _mm512_and_si512(b, low_byte));
  return {transpose_packed(high), _mm512_xor_si512(transpose_packed(low), bias)};
}

// Four images' adjacent gradients (zeros beyond `existing` images), to two planes [count][4].
void pack_grads(const int16_t* const (&images)[4], int existing, int64_t offset, int64_t count,
                PanelPlace place, int8_t* high, int8_t* low) {
  const int16_t* r0 = images[0] + offset;
  const int16_t* r1 = images[1] + offset;
  const int16_t* r2 = images[2] + offset;
  const int16_t* r3 = images[3] + offset;
  int64_t i = 0;
  for (; existing == 4 && i + 16 <= count; i += 16, place.advance()) {
    const GradBytes g = split_grads(load32(r0 + i), load32(r1 + i), load32(r2 + i), load32(r3 + i));
    _mm512_storeu_si512(high + place(), g.high);
    _mm512_storeu_si512(low + place(), g.low);
  }
  for (; i < count; i += 16, place.advance()) {
    const __mmask16 valid = mask16(count - i);
    const auto lanes = [&](int image) {
      return static_cast<__mmask16>(image < existing ? valid : 0);
    };
    const GradBytes g = split_grads(
        _mm256_maskz_loadu_epi16(lanes(0), r0 + i), _mm256_maskz_loadu_epi16(lanes(1), r1 + i),
        _mm256_maskz_loadu_epi16(lanes(2), r2 + i), _mm256_maskz_loadu_epi16(lanes(3), r3 + i));
    _mm512_mask_storeu_epi32(high + place(), valid, g.high);
    _mm512_mask_storeu_epi32(low + place(), valid, g.low);
  }
}

// Four images' adjacent 8-bit gradients (zeros beyond `existing` images), to [count][4].
void pack_grads(const int8_t* const (&images)[4], int existing, int64_t offset, int64_t count,
                PanelPlace place, int8_t* to) {
  for (int64_t i = 0; i < count; i += 16, place.advance()) {
    const __mmask16 valid = mask16(count - i);
    __m128i rows[4];
    for (int image = 0; image < 4; ++image) {
      rows[image] = _mm_maskz_loadu_epi8(image < existing ? valid : 0, images[image] + offset + i);
    }
    _mm512_mask_storeu_epi32(to + place(), valid, interleave4(rows[0], rows[1], rows[2], rows[3]));
  }
}

// The place of a unit.
struct UnitPlace {
  int64_t image = 0, y = 0, x = 0;  // first output pixel
  int existing = 4;                 // images
};
UnitPlace unit_place(const GradWeightsPlan& plan, int64_t unit) {
  const int64_t image = unit / (plan.bands_y * plan.bands_x) * 4;
  return {.image = image,
          .y = unit / plan.bands_x % plan.bands_y * plan.band_rows,
          .x = unit % plan.bands_x * plan.band_columns,
          .existing = static_cast<int>(smaller(4, plan.shape.batch - image))};
}

// Calls pack(images, offset, count, to) for each row of a unit, or for each pixel if gradients of
// the slice are not adjacent; `to` is the place of its first gradient. Gradients outside of the
// image are left to fill(from, count), panel by panel.
template <typename T, typename Pack, typename Fill>
void for_each_grad_row(const GradWeightsPlan& plan, const T* grads, const UnitPlace& place,
                       int64_t first_channel, Pack&& pack, Fill&& fill) {
  const ConvolutionShape& s = plan.shape;
  const T* images[4];
  for (int i = 0; i < 4; ++i) {
    images[i] = grads + (place.image + (i < place.existing ? i : 0)) * s.out_height * s.out_width *
                            s.out_channels;
  }
  const int64_t channels = smaller(plan.slice_channels(), s.out_channels - first_channel);
  const int64_t columns = larger(0, smaller(plan.band_columns, s.out_width - place.x));
  for (int64_t row = 0; row < plan.band_rows; ++row) {
    const int64_t y = place.y + row;
    const int64_t existing = y < s.out_height ? columns : 0;
    const int64_t to = row * plan.band_columns * plan.position_bytes();
    const int64_t from = (y * s.out_width + place.x) * s.out_channels;
    if (channels == s.out_channels) {
      pack(images, from, existing * channels, to);
    } else {
      for (int64_t x = 0; x < existing; ++x) {
        pack(images, from + x * s.out_channels + first_channel, channels,
             to + x * plan.position_bytes());
      }
    }
    const int64_t missing = (plan.band_columns - existing) * plan.position_bytes();
    if (missing == 0) continue;
    for (int64_t panel = 0; panel < plan.slice_panels; ++panel) {
      fill(to + panel * plan.panel_stride + existing * plan.position_bytes(), missing);
    }
  }
}

void pack_unit_planes(const GradWeightsPlan& plan, const int16_t* grads, const UnitPlace& place,
                      int64_t first_channel, const PanelPlace& panels, int8_t* high) {
  int8_t* low = high + plan.plane_stride;
  for_each_grad_row(
      plan, grads, place, first_channel,
      [&](const int16_t* const(&images)[4], int64_t offset, int64_t count, int64_t to) {
        pack_grads(images, place.existing, offset, count, panels, high + to, low + to);
      },
      [&](int64_t from, int64_t count) {
        fill_bytes(reinterpret_cast<uint8_t*>(high) + from, count, 0);
        fill_bytes(reinterpret_cast<uint8_t*>(low) + from, count, 128);
      });
}

void pack_unit_plane(const GradWeightsPlan& plan, const int8_t* grads, const UnitPlace& place,
                     int64_t first_channel, const PanelPlace& panels, int8_t* plane) {
  for_each_grad_row(
      plan, grads, place, first_channel,
      [&](const int8_t* const(&images)[4], int64_t offset, int64_t count, int64_t to) {
        pack_grads(images, place.existing, offset, count, panels, plane + to);
      },
      [&](int64_t from, int64_t count) {
        fill_bytes(reinterpret_cast<uint8_t*>(plane) + from, count, 0);
      });
}

// rescale_rne and accumulate, 8 sums at a time.
struct Rescale {
  __m128i right, left;
  __m512i below_half, odd, limit;

  explicit Rescale(int shift) {
    const int left_shift = shift < 0 ? (shift < -62 ? 62 : -shift) : 0;
    right = _mm_cvtsi32_si128(shift > 0 ? shift : 0);
    left = _mm_cvtsi32_si128(left_shift);
    below_half = _mm512_set1_epi64(shift > 0 ? (int64_t{1} << (shift - 1)) - 1 : 0);
    odd = _mm512_set1_epi64(shift > 0 ? 1 : 0);
    // Magnitudes that a left shift takes beyond 61 bits.
    limit = _mm512_set1_epi64(left_shift > 60 ? 1 : int64_t{1} << (61 - left_shift));
    if (left_shift == 0) limit = _mm512_set1_epi64(INT64_MAX);
  }
  // If no sum reaches kWideLimit.
  __m512i narrow(__m512i n) const {
    const __m512i tie = _mm512_and_si512(_mm512_sra_epi64(n, right), odd);
    const __m512i rounded =
        _mm512_sra_epi64(_mm512_add_epi64(_mm512_add_epi64(n, below_half), tie), right);
    return _mm512_sll_epi64(rounded, left);
  }
  __m512i any(__m512i n) const {
    const __mmask8 clipped = _mm512_cmpge_epi64_mask(_mm512_abs_epi64(n), limit);
    const __m512i wide = _mm512_set1_epi64(kWideLimit);
    const __m512i edge =
        _mm512_mask_sub_epi64(wide, _mm512_movepi64_mask(n), _mm512_setzero_si512(), wide);
    return _mm512_mask_mov_epi64(narrow(n), clipped, edge);
  }
  __m512i added(__m512i sum, __m512i n) const {
    const __m512i most = _mm512_set1_epi64(kWideLimit), least = _mm512_set1_epi64(-kWideLimit);
    const __mmask8 stuck = _mm512_cmpge_epi64_mask(_mm512_abs_epi64(sum), most);
    const __m512i clipped =
        _mm512_max_epi64(least, _mm512_min_epi64(most, _mm512_add_epi64(sum, any(n))));
    return _mm512_mask_mov_epi64(clipped, stuck, sum);
  }
};

// Whether sums are the first of their totals and stay below kWideLimit when they are
// rescaled: products have at most 22 bits.
bool is_plain(const ConvolutionGradWeights& args) {
  const ConvolutionShape& s = args.shape;
  const auto depth = static_cast<uint64_t>(s.batch * s.out_height * s.out_width);
  return !args.adds && 22 + std::bit_width(depth) - smaller(args.shift, 0) <= 61;
}

void transpose_qwords(__m512i (&r)[8]) {
  __m512i t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_epi64(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi64(r[i], r[i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    const __m512i a = _mm512_shuffle_i64x2(t[i], t[i + 2], 0x88);
    const __m512i b = _mm512_shuffle_i64x2(t[i], t[i + 2], 0xdd);
    const __m512i c = _mm512_shuffle_i64x2(t[i + 4], t[i + 6], 0x88);
    const __m512i d = _mm512_shuffle_i64x2(t[i + 4], t[i + 6], 0xdd);
    r[i] = _mm512_shuffle_i64x2(a, c, 0x88);
    r[i + 4] = _mm512_shuffle_i64x2(a, c, 0xdd);
    r[i + 2] = _mm512_shuffle_i64x2(b, d, 0x88);
    r[i + 6] = _mm512_shuffle_i64x2(b, d, 0xdd);
  }
}

template <bool kPlain>
void finish_blocks(const GradWeightsPlan& plan, const SumsView& view, int64_t row, int64_t rows,
                   const ConvolutionGradWeights& args) {
  const Rescale rescale(args.shift);
  const int64_t columns = plan.shape.out_channels;
  for (int64_t c = 0; c < columns; c += 8) {
    for (int64_t r = 0; r < rows; r += 8) {
      const int64_t count = smaller(8, rows - r);
      __m512i sums[8];
      for (int i = 0; i < 8; ++i) {
        const int64_t at = (r + (i < count ? i : 0)) * view.pitch + c;
        sums[i] = _mm512_load_si512(view.parts[0].as<int64_t>() + at);
        for (int part = 1; part < view.part_count; ++part) {
          sums[i] =
              _mm512_add_epi64(sums[i], _mm512_load_si512(view.parts[part].as<int64_t>() + at));
        }
      }
      transpose_qwords(sums);
      const auto valid = static_cast<__mmask8>(mask16(count));
      int64_t* to = args.totals.as<int64_t>() + c * plan.rows + row + r;
      for (int64_t i = 0; i < smaller(8, columns - c); ++i, to += plan.rows) {
        if constexpr (kPlain) {
          _mm512_mask_storeu_epi64(to, valid, rescale.narrow(sums[i]));
        } else {
          const __m512i old = _mm512_maskz_loadu_epi64(args.adds ? valid : 0, to);
          _mm512_mask_storeu_epi64(to, valid, rescale.added(old, sums[i]));
        }
      }
    }
  }
}

// Totals of 32 bits.
void finish_int32(const GradWeightsPlan& plan, const SumsView& view, int64_t row, int64_t rows,
                  const ConvolutionGradWeights& args) {
  const int64_t columns = plan.shape.out_channels;
  for (int64_t c = 0; c < columns; c += 16) {
    for (int64_t r = 0; r < rows; r += 16) {
      const int64_t count = smaller(16, rows - r);
      __m512i sums[16];
      for (int i = 0; i < 16; ++i) {
        const int64_t at = (r + (i < count ? i : 0)) * view.pitch + c;
        sums[i] = _mm512_load_si512(view.parts[0].as<int32_t>() + at);
        for (int part = 1; part < view.part_count; ++part) {
          sums[i] =
              _mm512_add_epi32(sums[i], _mm512_load_si512(view.parts[part].as<int32_t>() + at));
        }
      }
      transpose_dwords(sums);
      const __mmask16 valid = mask16(count);
      int32_t* to = args.totals.as<int32_t>() + c * plan.rows + row + r;
      for (int64_t i = 0; i < smaller(16, columns - c); ++i, to += plan.rows) {
        _mm512_mask_storeu_epi32(to, valid, sums[i]);
      }
    }
  }
}

void pack_unit_input(const GradWeightsPlan& plan, const int8_t* input, int64_t unit, uint8_t* to) {
  const UnitPlace place = unit_place(plan, unit);
  const ConvolutionShape& s = plan.shape;
  const int64_t channels = s.in_channels;
  const int8_t* images[4];
  for (int i = 0; i < 4; ++i) {
    images[i] =
        input + (place.image + (i < place.existing ? i : 0)) * s.in_height * s.in_width * channels;
  }
  const int64_t width = ceil_div(s.in_width, plan.decimation);
  const int64_t first_x = place.x * plan.step - s.padding_width;
  const int64_t from = larger(0, first_x);
  const int64_t left = smaller(plan.window_columns, from - first_x);
  const int64_t copied = larger(0, smaller(width, first_x + plan.window_columns) - from);
  const int64_t right = plan.window_columns - left - copied;
  const int64_t pixel = plan.pixel_bytes();
  const PanelPlace panels(plan.input_panels, plan.input_panel_stride);
  const auto fill = [&](uint8_t* pixels, int64_t count) {
    for (int64_t panel = 0; panel < plan.input_panels; ++panel) {
      fill_bytes(pixels + panel * plan.input_panel_stride, count * pixel, 128);
    }
  };
  for (int64_t row = 0; row < plan.window_rows; ++row, to += plan.window_columns * pixel) {
    const int64_t y = (place.y * plan.step + row) * plan.decimation - s.padding_height;
    if (y < 0 || y >= s.in_height) {
      fill(to, plan.window_columns);
      continue;
    }
    fill(to, left);
    const int64_t offset = (y * s.in_width + from * plan.decimation) * channels;
    uint8_t* inside = to + left * pixel;
    if (plan.decimation == 1) {
      pack_input(images, offset, copied * channels, panels, inside);
    } else {
      for (int64_t x = 0; x < copied; ++x) {
        pack_input(images, offset + x * plan.decimation * channels, channels, panels,
                   inside + x * pixel);
      }
    }
    fill(inside + copied * pixel, right);
  }
}

void pack_unit_grads(const GradWeightsPlan& plan, const ConstMantissaSpan& grads, int64_t unit,
                     int64_t first_channel, int8_t* to) {
  const UnitPlace place = unit_place(plan, unit);
  const int64_t left = plan.panels - first_channel / plan.panel_channels;
  const PanelPlace panels(smaller(plan.slice_panels, left), plan.panel_stride);
  if (plan.planes == 1) {
    pack_unit_plane(plan, grads.as<int8_t>(), place, first_channel, panels, to);
  } else {
    pack_unit_planes(plan, grads.as<int16_t>(), place, first_channel, panels, to);
  }
}

void finish_sums(const GradWeightsPlan& plan, const SumsView& view, int64_t row, int64_t rows,
                 const ConvolutionGradWeights& args) {
  if (plan.sum_bits == 32) return finish_int32(plan, view, row, rows, args);
  (is_plain(args) ? finish_blocks<true> : finish_blocks<false>)(plan, view, row, rows, args);
}

}  // namespace

void finish_row(const GradWeightsPlan& plan, const int64_t* sums, int64_t output, int64_t row,
                int64_t count, const ConvolutionGradWeights& args) {
  const Rescale rescale(args.shift);
  const bool plain = is_plain(args);
  int64_t* to = args.totals.as<int64_t>() + output * plan.rows + row;
  for (int64_t i = 0; i < count; i += 8) {
    const auto valid = static_cast<__mmask8>(mask16(smaller(8, count - i)));
    const __m512i sum = _mm512_load_si512(sums + i);
    if (plain) {
      _mm512_mask_storeu_epi64(to + i, valid, rescale.narrow(sum));
      continue;
    }
    const __m512i old = _mm512_maskz_loadu_epi64(args.adds ? valid : 0, to + i);
    _mm512_mask_storeu_epi64(to + i, valid, rescale.added(old, sum));
  }
}

const GradWeightsPacking kGradWeightsPacking = {pack_unit_input, pack_unit_grads, sum_inputs,
                                                sum_grads,       finish_row,      finish_sums};

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
#endif
