#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_grad_weights.h"

#include "kernels/convolution/avx512vnni_bytes.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_avx512vnni {
namespace {

#define MANTISSA_INLINE inline __attribute__((always_inline))
#define MANTISSA_UNROLL _Pragma("GCC unroll 32")

// Inline assembly because g++ 12 spills accumulators of the intrinsic in nested loops.
MANTISSA_INLINE void multiply_add(__m512i& sum, __m512i unsigned_bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
}

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

const uint8_t* tap_input(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky,
                         int64_t row) {
  return chunk.input + (ky * plan.window_columns * plan.shape.in_channels + row) * 4;
}

// Calls visit(input, offset of the gradient) for each position.
template <typename Visit>
MANTISSA_INLINE void for_each_position(const Positions& p, const uint8_t* input, int64_t grad_step,
                                       Visit&& visit) {
  int64_t grad = 0;
  for (int64_t i = 0; i < p.count[0]; ++i, input += p.step[0]) {
    const uint8_t* row = input;
    for (int64_t j = 0; j < p.count[1]; ++j, row += p.step[1]) {
      const uint8_t* pixel = row;
      for (int64_t k = 0; k < p.count[2]; ++k, pixel += p.step[2], grad += grad_step) {
        visit(pixel, grad);
      }
    }
  }
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
  int64_t columns;
  bool first;
};

MANTISSA_INLINE void flush(int64_t* to, __m256i high, __m256i low, __m512i correction,
                           bool first) {
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
    int64_t* to = a.sums + r * a.columns;
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

void sum_inputs(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t first) {
  const Positions p = chunk_positions(plan, chunk);
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i s0 = _mm512_setzero_si512();
  __m512i s1 = s0, s2 = s0, s3 = s0;
  for_each_position(p, tap_input(plan, chunk, ky, first), 0,
                    [&](const uint8_t* x, int64_t) __attribute__((always_inline)) {
                      multiply_add(s0, _mm512_loadu_si512(x), ones);
                      multiply_add(s1, _mm512_loadu_si512(x + 64), ones);
                      multiply_add(s2, _mm512_loadu_si512(x + 128), ones);
                      multiply_add(s3, _mm512_loadu_si512(x + 192), ones);
                    });
  const auto depth = static_cast<int32_t>(4 * p.count[0] * p.count[1] * p.count[2]);
  const __m512i bias = _mm512_set1_epi32(128 * depth);
  int32_t* to = chunk.input_sums + ky * round_up(plan.run, 64) + first;
  _mm512_store_si512(to, _mm512_sub_epi32(s0, bias));
  _mm512_store_si512(to + 16, _mm512_sub_epi32(s1, bias));
  _mm512_store_si512(to + 32, _mm512_sub_epi32(s2, bias));
  _mm512_store_si512(to + 48, _mm512_sub_epi32(s3, bias));
}

void sum_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  const Positions p = chunk_positions(plan, chunk);
  const int64_t positions = p.count[0] * p.count[1] * p.count[2];
  const int64_t step = plan.shape.out_channels * 4;
  const int8_t* high = chunk.planes + block * 64;
  const int8_t* low = high + plan.plane_stride;
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i high_sum = _mm512_setzero_si512();
  __m512i low_sum = high_sum;
  for (int64_t i = 0; i < positions; ++i, high += step, low += step) {
    multiply_add(high_sum, ones, _mm512_loadu_si512(high));
    multiply_add(low_sum, ones, _mm512_loadu_si512(low));
  }
  for (int half = 0; half < 2; ++half) {
    const __m256i h = half != 0 ? _mm512_extracti64x4_epi64(high_sum, 1)
                                : _mm512_castsi512_si256(high_sum);
    const __m256i l = half != 0 ? _mm512_extracti64x4_epi64(low_sum, 1)
                                : _mm512_castsi512_si256(low_sum);
    _mm512_store_si512(chunk.grad_sums + block * 16 + half * 8,
                       _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(h), 8),
                                        _mm512_cvtepi32_epi64(l)));
  }
}

void sum_products(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                  int64_t count, int64_t block, bool first, int64_t* sums) {
  const ProductArguments arguments = {
      .positions = chunk_positions(plan, chunk),
      .input = tap_input(plan, chunk, ky, row),
      .high = chunk.planes + block * 64,
      .low = chunk.planes + plan.plane_stride + block * 64,
      .grad_step = plan.shape.out_channels * 4,
      .input_sums = chunk.input_sums + ky * round_up(plan.run, 64) + row,
      .grad_sums = chunk.grad_sums + block * 16,
      .sums = sums + (ky * plan.run + row) * plan.columns + block * 16,
      .columns = plan.columns,
      .first = first};
  kProducts[count - 1](arguments);
}

}  // namespace mantissa::kernels::convolution_avx512vnni

MANTISSA_TARGET_END
#endif
