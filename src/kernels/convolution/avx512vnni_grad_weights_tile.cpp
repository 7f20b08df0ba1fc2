#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_bytes.h"
#include "kernels/convolution/avx512vnni_grad_weights.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_avx512vnni {
namespace {

// The positions of a chunk: three nested loops (outermost first) over the packed input; the
// gradient's positions are adjacent.
struct Positions {
  int64_t count[3];
  int64_t step[3];  // bytes in the packed input
};

Positions chunk_positions(const GradWeightsPlan& plan, const Chunk& chunk) {
  const int64_t pixel = plan.shape.in_channels * 4;
  Positions p = {{chunk.units, plan.band_rows, plan.band_columns},
                 {plan.input_bytes, plan.step * plan.window_columns * pixel, plan.step * pixel}};
  for (int i = 0; i < 2; ++i) {  // join the inner loops where they run through
    if (p.count[2] != 1 && p.step[1] != p.count[2] * p.step[2]) break;
    p = {{1, p.count[0], p.count[1] * p.count[2]},
         {0, p.step[0], p.count[2] == 1 ? p.step[1] : p.step[2]}};
  }
  return p;
}

struct ProductArguments {
  Positions positions;
  const uint8_t* input;
  const int8_t* high;
  const int8_t* low;
  int64_t grad_step;
  const int32_t* input_sums;  // of the tile's rows
  const int64_t* grad_sums;   // of the tile's 16 columns
  int64_t* sums;
  int64_t pitch;
  bool first;
};

MANTISSA_INLINE void flush(int64_t* to, __m256i high, __m256i low, __m512i correction, bool first) {
  __m512i sum = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(high), 8),
                                 _mm512_cvtepi32_epi64(low));
  sum = _mm512_add_epi64(sum, _mm512_slli_epi64(correction, 7));
  if (!first) sum = _mm512_add_epi64(sum, _mm512_load_si512(to));
  _mm512_store_si512(to, sum);
}

template <int kRows>
__attribute__((noinline)) void products(const ProductArguments& a) {
  __m512i high[kRows];
  __m512i low[kRows];
  MANTISSA_UNROLL for (int r = 0; r < kRows; ++r) high[r] = low[r] = _mm512_setzero_si512();
  const uint8_t* input = a.input;
  const int8_t* high_plane = a.high;
  const int8_t* low_plane = a.low;
  const Positions& p = a.positions;
  const int64_t pixel_step = p.step[2];
  for (int64_t i = 0; i < p.count[0]; ++i, input += p.step[0]) {
    const uint8_t* row = input;
    for (int64_t j = 0; j < p.count[1]; ++j, row += p.step[1]) {
      const uint8_t* pixel = row;
      for (int64_t k = p.count[2]; k > 0; --k) {
        const __m512i g_high = _mm512_loadu_si512(high_plane);
        const __m512i g_low = _mm512_loadu_si512(low_plane);
        MANTISSA_UNROLL for (int r = 0; r < kRows; ++r) {
          __m512i x;
          asm("vpbroadcastd %1, %0"
              : "=v"(x)
              : "m"(*reinterpret_cast<const uint32_t*>(pixel + 4 * r)));
          multiply_add(high[r], x, g_high);
          multiply_add(low[r], x, g_low);
        }
        pixel += pixel_step;
        high_plane += a.grad_step;
        low_plane += a.grad_step;
      }
    }
  }
  const __m512i grads0 = _mm512_load_si512(a.grad_sums);
  const __m512i grads1 = _mm512_load_si512(a.grad_sums + 8);
  MANTISSA_UNROLL for (int r = 0; r < kRows; ++r) {
    const __m512i inputs = _mm512_set1_epi64(a.input_sums[r]);
    int64_t* to = a.sums + r * a.pitch;
    flush(to, _mm512_castsi512_si256(high[r]), _mm512_castsi512_si256(low[r]),
          _mm512_sub_epi64(inputs, grads0), a.first);
    flush(to + 8, _mm512_extracti64x4_epi64(high[r], 1), _mm512_extracti64x4_epi64(low[r], 1),
          _mm512_sub_epi64(inputs, grads1), a.first);
  }
}

using Products = void (*)(const ProductArguments&);
constexpr Products kProducts[kGradWeightsRows] = {
    products<1>, products<2>, products<3>,  products<4>,  products<5>,  products<6>,  products<7>,
    products<8>, products<9>, products<10>, products<11>, products<12>, products<13>, products<14>};

}  // namespace

// Sums over rows first: a row of the window serves all ky.
void sum_inputs(const GradWeightsPlan& plan, const Chunk& chunk, int64_t first) {
  const int64_t kernel_height = plan.shape.kernel_height;
  const int64_t pitch = round_up(plan.run, 64);
  const int64_t pixel = plan.step * plan.shape.in_channels * 4;
  const int64_t row_bytes = plan.window_columns * plan.shape.in_channels * 4;
  const auto depth = static_cast<int>(4 * chunk.units * plan.band_rows * plan.band_columns);
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t ky = 0; ky < kernel_height; ++ky) {
    int32_t* to = chunk.input_sums + ky * pitch + first;
    for (int i = 0; i < 64; i += 16) _mm512_store_si512(to + i, _mm512_set1_epi32(-128 * depth));
  }
  for (int64_t unit = 0; unit < chunk.units; ++unit) {
    for (int64_t row = 0; row < plan.window_rows; ++row) {
      const uint8_t* x = chunk.input + unit * plan.input_bytes + row * row_bytes + first * 4;
      __m512i sums[4];
      MANTISSA_UNROLL for (int i = 0; i < 4; ++i) sums[i] = _mm512_setzero_si512();
      for (int64_t column = 0; column < plan.band_columns; ++column, x += pixel) {
        MANTISSA_UNROLL for (int i = 0; i < 4; ++i) {
          multiply_add(sums[i], _mm512_loadu_si512(x + 64 * i), ones);
        }
      }
      for (int64_t ky = 0; ky < smaller(kernel_height, row + 1); ++ky) {
        if ((row - ky) % plan.step != 0 || (row - ky) / plan.step >= plan.band_rows) continue;
        int32_t* to = chunk.input_sums + ky * pitch + first;
        MANTISSA_UNROLL for (int i = 0; i < 4; ++i) {
          const __m512i old = _mm512_load_si512(to + 16 * i);
          _mm512_store_si512(to + 16 * i, _mm512_add_epi32(old, sums[i]));
        }
      }
    }
  }
}

void sum_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  const int64_t step = plan.shape.out_channels * 4;
  const int8_t* high = chunk.planes + block * 64;
  const int8_t* low = high + plan.plane_stride;
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i high_sums[4];
  __m512i low_sums[4];
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) high_sums[i] = low_sums[i] = _mm512_setzero_si512();
  int64_t positions = chunk.units * plan.band_rows * plan.band_columns;
  for (; positions >= 4; positions -= 4) {
    MANTISSA_UNROLL for (int i = 0; i < 4; ++i, high += step, low += step) {
      multiply_add(high_sums[i], ones, _mm512_loadu_si512(high));
      multiply_add(low_sums[i], ones, _mm512_loadu_si512(low));
    }
  }
  for (; positions > 0; --positions, high += step, low += step) {
    multiply_add(high_sums[0], ones, _mm512_loadu_si512(high));
    multiply_add(low_sums[0], ones, _mm512_loadu_si512(low));
  }
  MANTISSA_UNROLL for (int i = 1; i < 4; ++i) {
    high_sums[0] = _mm512_add_epi32(high_sums[0], high_sums[i]);
    low_sums[0] = _mm512_add_epi32(low_sums[0], low_sums[i]);
  }
  const __m512i zero = _mm512_setzero_si512();
  int64_t* to = chunk.grad_sums + block * 16;
  flush(to, _mm512_castsi512_si256(high_sums[0]), _mm512_castsi512_si256(low_sums[0]), zero, true);
  flush(to + 8, _mm512_extracti64x4_epi64(high_sums[0], 1),
        _mm512_extracti64x4_epi64(low_sums[0], 1), zero, true);
}

void sum_products(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                  int64_t count, int64_t block, bool first, int64_t* sums, int64_t pitch) {
  const ProductArguments arguments = {
      .positions = chunk_positions(plan, chunk),
      .input = chunk.input + (ky * plan.window_columns * plan.shape.in_channels + row) * 4,
      .high = chunk.planes + block * 64,
      .low = chunk.planes + plan.plane_stride + block * 64,
      .grad_step = plan.shape.out_channels * 4,
      .input_sums = chunk.input_sums + ky * round_up(plan.run, 64) + row,
      .grad_sums = chunk.grad_sums + block * 16,
      .sums = sums,
      .pitch = pitch,
      .first = first};
  kProducts[count - 1](arguments);
}

}  // namespace mantissa::kernels::convolution_avx512vnni

MANTISSA_TARGET_END
#endif
