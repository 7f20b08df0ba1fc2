#if defined(__x86_64__)
#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx2_vectors.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {
namespace {

// Adjacent elements of two images, alternating.
void pair_bytes(const int8_t* a, const int8_t* b, int64_t count, int16_t* to) {
  const auto pair = [&](int64_t i) {
    const __m128i first = load16(a + i), second = load16(b + i);
    store32(to + 2 * i, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, second)));
    store32(to + 2 * i + 16, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(first, second)));
  };
  if (count < 16) {
    for (int64_t i = 0; i < count; ++i) {
      to[2 * i] = a[i];
      to[2 * i + 1] = b[i];
    }
    return;
  }
  for (int64_t i = 0; i + 16 < count; i += 16) pair(i);
  pair(count - 16);  // may overlap
}

int16_t* clear_words(int16_t* to, int64_t count) {
  std::memset(to, 0, static_cast<size_t>(count) * sizeof(int16_t));
  return to + count;
}

// The source pixels [from, from + copied) that `columns` packed pixels from `first` meet.
RowParts window_row(const GradWeightsPlan& plan, int64_t first, int64_t columns) {
  const int64_t width = ceil_div(plan.shape.in_width, plan.decimation);
  RowParts parts;
  parts.from = larger(0, first);
  parts.left = smaller(columns, parts.from - first);
  parts.copied = larger(0, smaller(width, first + columns) - parts.from);
  parts.right = columns - parts.left - parts.copied;
  return parts;
}

// `count` packed pixels of a slice of channels, from pixel `from` of two images.
void pack_pixels(const GradWeightsPlan& plan, const int8_t* a, const int8_t* b, int64_t from,
                 int64_t count, const Slice& slice, int16_t* to) {
  const int64_t channels = plan.shape.in_channels;
  const int64_t words = pixel_words(plan, slice.inputs);
  if (plan.decimation == 1 && slice.inputs == channels && words == 2 * channels) {
    return pair_bytes(a + from * channels, b + from * channels, count * channels, to);
  }
  for (int64_t x = 0; x < count; ++x) {
    const int64_t at = (from + x * plan.decimation) * channels + slice.first_input;
    pair_bytes(a + at, b + at, slice.inputs, to + x * words);
  }
}

// Pairs of one-pixel images that are packed at once: their cache lines serve all groups.
constexpr int64_t kPairsAtOnce = 8;

// A row of gradients.
template <typename T>
struct GradRow {
  const T* pixels;
  const T* end;       // of all gradients
  int64_t to_second;  // elements to the second image; 0 if there is none
  int64_t step;       // elements between pixels
  int64_t columns;
};

// `channels` <= 16 channels of a row, `to` [column][vectors * 8][2].
template <typename T>
void pair_grads(const GradRow<T>& row, const T* pixel, int64_t channels, int16_t* to) {
  const int vectors = vectors_for(channels);
  for (int64_t x = 0; x < row.columns; ++x, pixel += row.step) {
    const __m256i first = load_words(pixel, channels, row.end);
    const __m256i second = row.to_second > 0 ? load_words(pixel + row.to_second, channels, row.end)
                                             : _mm256_setzero_si256();
    __m256i lower, upper;
    interleave_words(first, second, lower, upper);
    store32(to, lower);
    if (vectors == 2) store32(to + 16, upper);
    to += 16 * vectors;
  }
}

// A row of all groups of a slice, to positions `position`...
template <typename T>
void pack_row(const GradRow<T>& row, const Unit& unit, const Slice& slice, int64_t position,
              int16_t* to) {
  for (int64_t group = 0; group < slice.groups(); ++group) {
    pair_grads(
        row, row.pixels + slice.first_output + group * kGroupChannels, slice.group_channels(group),
        to + group * unit.group_words() + position * kLanes * 2 * slice.group_vectors(group));
  }
}

void pack_input(const GradWeightsPlan& plan, const int8_t* input, const Unit& unit,
                const Slice& slice, int16_t* to) {
  const ConvolutionShape& s = plan.shape;
  const int64_t image_count = s.in_height * s.in_width * s.in_channels;
  const int64_t words = pixel_words(plan, slice.inputs);
  const int64_t columns = window_columns(plan, unit.columns);
  const RowParts parts = window_row(plan, unit.x * plan.step - s.padding_width, columns);
  for (int64_t pair = 0; pair < unit.pairs; ++pair) {
    const int64_t image = (unit.pair + pair) * 2;
    const int8_t* a = input + image * image_count;
    const int8_t* b = image + 1 < s.batch ? a + image_count : a;  // or whatever: gradients are 0
    for (int64_t row = 0; row < window_rows(plan, unit.rows); ++row) {
      const int64_t y = (unit.y * plan.step + row) * plan.decimation - s.padding_height;
      if (y < 0 || y >= s.in_height) {
        to = clear_words(to, columns * words);
        continue;
      }
      to = clear_words(to, parts.left * words);
      const int64_t from = y * s.in_width + parts.from * plan.decimation;
      if (parts.copied > 0) pack_pixels(plan, a, b, from, parts.copied, slice, to);
      to = clear_words(to + parts.copied * words, parts.right * words);
    }
  }
}

template <typename T>
void pack_grads(const GradWeightsPlan& plan, const T* grads, const Unit& unit, const Slice& slice,
                int16_t* to) {
  const ConvolutionShape& s = plan.shape;
  const int64_t image_count = s.out_height * s.out_width * s.out_channels;
  const T* end = grads + s.batch * image_count;
  const int64_t last_pair = unit.pair + unit.pairs;
  int64_t position = 0;
  if (image_count == s.out_channels) {  // one pixel per image: a row of pairs
    for (int64_t pair = unit.pair; pair < last_pair;) {
      const bool second = 2 * pair + 1 < s.batch;
      const int64_t pairs = second ? smaller(kPairsAtOnce, s.batch / 2 - pair) : 1;
      const int64_t count = smaller(pairs, last_pair - pair);
      pack_row<T>(
          {grads + 2 * pair * image_count, end, second ? image_count : 0, 2 * image_count, count},
          unit, slice, position, to);
      position += count;
      pair += count;
    }
    return;
  }
  for (int64_t pair = unit.pair; pair < last_pair; ++pair) {
    const bool second = 2 * pair + 1 < s.batch;
    for (int64_t y = unit.y; y < unit.y + unit.rows; ++y) {
      const T* row = grads + 2 * pair * image_count + (y * s.out_width + unit.x) * s.out_channels;
      pack_row<T>({row, end, second ? image_count : 0, s.out_channels, unit.columns}, unit, slice,
                  position, to);
      position += unit.columns;
    }
  }
}

}  // namespace

const GradWeightsPacking kGradWeightsPacking = {pack_input, pack_grads<int8_t>, pack_grads<int16_t>,
                                                finish_sums};

}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
#endif
