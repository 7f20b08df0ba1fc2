// The ends of grad_weights' tiles on AVX-512: sums of products are corrected for the biased
// operands (kernels/convolution/bytes/grad_weights.h), and stored or added. Include it outside of
// any region.
#pragma once

#include "kernels/convolution/x86/avx512vnni.h"
#include "kernels/convolution/x86/avx512vnni_vectors.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

constexpr __mmask16 kAllSixteen = 0xffff;

// The place of a tile's sums, stored if they are the first, and their corrections.
struct Destination {
  const int32_t* input_sums = nullptr;  // of the tile's (kx, c)
  GradientSums grad_sums;               // of its output channels
  GradientSums sums;
  int64_t pitch = 0;
  bool first = true;
};

// Eight sums: part + 128 * correction, added to `to` or stored there.
MANTISSA_INLINE void flush(int64_t* to, __m512i part, __m512i correction, bool first) {
  __m512i sum = _mm512_add_epi64(part, _mm512_slli_epi64(correction, 7));
  if (!first) sum = _mm512_add_epi64(sum, _mm512_load_si512(to));
  _mm512_store_si512(to, sum);
}

// The same modulo 2^32, for the sums of sixteen that the mask has.
MANTISSA_INLINE void flush_int32(int32_t* to, __mmask16 mask, __m512i part, __m512i correction,
                                 bool first) {
  __m512i sum = _mm512_add_epi32(part, _mm512_slli_epi32(correction, 7));
  if (!first) sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask, to));
  _mm512_mask_storeu_epi32(to, mask, sum);
}

MANTISSA_INLINE __m512i join_planes_int32(__m512i high, __m512i low) {
  return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

// 256 * high + low of eight lanes.
MANTISSA_INLINE __m512i join_planes(__m256i high, __m256i low) {
  return _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(high), 8),
                          _mm512_cvtepi32_epi64(low));
}

// Sixteen output channels, the first block of the destination's, of one (kx, c), in two planes.
MANTISSA_INLINE void flush_planes(const Destination& d, int64_t row, __m512i high, __m512i low) {
  if (d.sums.bits == 32) {
    const __m512i grads = _mm512_load_si512(d.grad_sums.as<int32_t>());
    return flush_int32(d.sums.as<int32_t>() + row * d.pitch, kAllSixteen,
                       join_planes_int32(high, low),
                       _mm512_sub_epi32(_mm512_set1_epi32(d.input_sums[row]), grads), d.first);
  }
  const __m512i inputs = _mm512_set1_epi64(d.input_sums[row]);
  const auto* grads = d.grad_sums.as<int64_t>();
  int64_t* to = d.sums.as<int64_t>() + row * d.pitch;
  flush(to, join_planes(_mm512_castsi512_si256(high), _mm512_castsi512_si256(low)),
        _mm512_sub_epi64(inputs, _mm512_load_si512(grads)), d.first);
  flush(to + 8, join_planes(_mm512_extracti64x4_epi64(high, 1), _mm512_extracti64x4_epi64(low, 1)),
        _mm512_sub_epi64(inputs, _mm512_load_si512(grads + 8)), d.first);
}

// The same in one plane, of the `block`th sixteen: it has no low bytes, and nothing to correct for
// the inputs' sake.
MANTISSA_INLINE void flush_block(const Destination& d, int64_t row, int block, __m512i sums) {
  const __m512i zero = _mm512_setzero_si512();
  const int64_t at = row * d.pitch + 16 * block;
  if (d.sums.bits == 32) {
    const __m512i grads = _mm512_load_si512(d.grad_sums.as<int32_t>() + 16 * block);
    return flush_int32(d.sums.as<int32_t>() + at, kAllSixteen, sums, _mm512_sub_epi32(zero, grads),
                       d.first);
  }
  const int64_t* grads = d.grad_sums.as<int64_t>() + 16 * block;
  int64_t* to = d.sums.as<int64_t>() + at;
  flush(to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums)),
        _mm512_sub_epi64(zero, _mm512_load_si512(grads)), d.first);
  flush(to + 8, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1)),
        _mm512_sub_epi64(zero, _mm512_load_si512(grads + 8)), d.first);
}

// Sixteen (kx, c), the `vector`th of the destination's, of one output channel, in two planes.
MANTISSA_INLINE void flush_inputs(const Destination& d, int64_t output, int64_t vector,
                                  __mmask16 mask, __m512i high, __m512i low) {
  const __m512i inputs = _mm512_load_si512(d.input_sums + 16 * vector);
  const int64_t at = output * d.pitch + 16 * vector;
  if (d.sums.bits == 32) {
    const __m512i grad = _mm512_set1_epi32(d.grad_sums.as<int32_t>()[output]);
    return flush_int32(d.sums.as<int32_t>() + at, mask, join_planes_int32(high, low),
                       _mm512_sub_epi32(inputs, grad), d.first);
  }
  const __m512i grad = _mm512_set1_epi64(d.grad_sums.as<int64_t>()[output]);
  int64_t* to = d.sums.as<int64_t>() + at;
  flush(to, join_planes(_mm512_castsi512_si256(high), _mm512_castsi512_si256(low)),
        _mm512_sub_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(inputs)), grad), d.first);
  flush(to + 8, join_planes(_mm512_extracti64x4_epi64(high, 1), _mm512_extracti64x4_epi64(low, 1)),
        _mm512_sub_epi64(_mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(inputs, 1)), grad),
        d.first);
}

// The same in one plane.
MANTISSA_INLINE void flush_plane_inputs(const Destination& d, int64_t output, int64_t vector,
                                        __mmask16 mask, __m512i sums) {
  const int64_t at = output * d.pitch + 16 * vector;
  const __m512i zero = _mm512_setzero_si512();
  if (d.sums.bits == 32) {
    const __m512i grad = _mm512_set1_epi32(d.grad_sums.as<int32_t>()[output]);
    return flush_int32(d.sums.as<int32_t>() + at, mask, sums, _mm512_sub_epi32(zero, grad),
                       d.first);
  }
  const __m512i correction =
      _mm512_sub_epi64(zero, _mm512_set1_epi64(d.grad_sums.as<int64_t>()[output]));
  int64_t* to = d.sums.as<int64_t>() + at;
  flush(to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums)), correction, d.first);
  flush(to + 8, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1)), correction, d.first);
}

// The destination of sum_shared's sums, of `outputs` channels by vectors of 16 of a tap row from
// `row` on: the totals, through `tile` if they are rescaled at once, or a buffer for the next
// chunk.
struct SharedSums {
  const GradWeightsPlan& plan;
  const ConvolutionGradWeights& args;
  const Chunk& chunk;
  int64_t ky, row, vectors;
  bool first_chunk;
  int64_t* waiting;
  int64_t* tile;  // [outputs][vectors][16]

  bool are_int32() const { return plan.sum_bits == 32; }
  int64_t count() const { return smaller(vectors * 16, plan.run - row); }
  // Sums of the last vector that are stored.
  __mmask16 last() const {
    return are_int32() ? mask16(count() - (vectors - 1) * 16) : kAllSixteen;
  }

  Destination of(int64_t output) const {
    Destination d = {.input_sums = chunk.input_sums + ky * round_up(plan.run, 64) + row,
                     .grad_sums = chunk.grad_sums.from(output),
                     .sums = {tile},
                     .pitch = vectors * 16,
                     .first = first_chunk};
    if (are_int32()) {
      d.sums = args.totals.from(output * plan.rows + ky * plan.run + row);
      d.pitch = plan.rows;
    } else if (plan.keeps_sums()) {
      d.sums = {waiting + plan.shared_sums_at(output, ky) + row};
      d.pitch = plan.shape.kernel_height * plan.run_pitch();
    }
    return d;
  }
  void finish(int64_t output, int64_t outputs) const {
    if (are_int32() || plan.keeps_sums()) return;
    for (int64_t o = 0; o < outputs; ++o) {
      finish_row(plan, tile + o * vectors * 16, output + o, ky * plan.run + row, count(), args);
    }
  }
};

}  // namespace
}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
