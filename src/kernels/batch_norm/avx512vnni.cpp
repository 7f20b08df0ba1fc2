// Batch norm for AVX-512: sums of gradients in strips of 16 channels where their number is a
// multiple of 16; elsewhere the loops of AVX2, or the shared ones compiled for wider vectors,
// whichever are faster.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/target.h"
#include "kernels/batch_norm/avx2_kernels.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns inside its own intrinsics, which pass values that they then ignore.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/batch_norm/batch_norm_loops.h"

// Rows are walked in blocks small enough that a block is still in the nearest cache when its next
// strip is read.
constexpr int64_t kRowBlock = 128;

// Sixteen numbers of a gradient; 0 where the mask is.
inline __m512i load_gradient(__mmask16 mask, const int16_t* from) {
  return _mm512_maskz_cvtepi16_epi32(mask,
                                     _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline __m512i load_gradient(__mmask16 mask, const int8_t* from) {
  return _mm512_maskz_cvtepi8_epi32(mask, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

// Which of sixteen elements the ReLU behind the batch norm lets through.
template <bool kMasked>
inline __mmask16 passes(const int8_t* output, int64_t at) {
  if constexpr (!kMasked) return 0xffff;
  return _mm_cmpgt_epi8_mask(_mm_loadu_si128(reinterpret_cast<const __m128i*>(output + at)),
                             _mm_setzero_si128());
}

// sums[c] += the sixteen numbers.
inline void add_to(int64_t* sums, __m512i numbers) {
  const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(numbers));
  const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(numbers, 1));
  _mm512_storeu_si512(sums, _mm512_add_epi64(_mm512_loadu_si512(sums), low));
  _mm512_storeu_si512(sums + 8, _mm512_add_epi64(_mm512_loadu_si512(sums + 8), high));
}

template <typename T, bool kMasked>
inline void gradient_sums_of(const BatchNormGradient& args, int64_t first, int64_t begin_row,
                             int64_t end_row, int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  __m512i grads = _mm512_setzero_si512(), products = _mm512_setzero_si512();
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t at = row * args.channels + first;
    const __m512i grad =
        load_gradient(passes<kMasked>(args.output.as<int8_t>(), at), args.grad_out.as<T>() + at);
    const __m512i in = _mm512_cvtepi8_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(args.in.as<int8_t>() + at)));
    grads = _mm512_add_epi32(grads, grad);
    products = _mm512_add_epi32(products, _mm512_mullo_epi32(grad, in));
  }
  add_to(sum_grad + first, grads);
  add_to(sum_grad_in + first, products);
}

template <typename T>
inline void gradient_sums_blocks(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                                 int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  static_assert(kRowBlock <= 256, "sums of products must fit int32");
  for (int64_t row = begin_row; row < end_row; row += kRowBlock) {
    const int64_t stop = std::min(end_row, row + kRowBlock);
    for (int64_t first = 0; first < args.channels; first += kStrip) {
      if (args.output.data != nullptr) {
        gradient_sums_of<T, true>(args, first, row, stop, sum_grad, sum_grad_in);
      } else {
        gradient_sums_of<T, false>(args, first, row, stop, sum_grad, sum_grad_in);
      }
    }
  }
}

inline void gradient_sums_strips(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                                 int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  if (args.channels % kStrip != 0 || !batch_norm_avx2::are_bytes(args)) {
    return gradient_sums(args, begin_row, end_row, sum_grad, sum_grad_in);
  }
  with_gradient_type(args.grad_out.bits, [&](auto type) {
    gradient_sums_blocks<decltype(type)>(args, begin_row, end_row, sum_grad, sum_grad_in);
  });
}

// AVX2's loops on 32-bit lanes need fewer instructions than the plain ones on 64-bit lanes.
inline WideStatistics scale_offset_by_lanes(const ScaleOffset& args, int64_t begin_row,
                                            int64_t end_row) noexcept {
  return (batch_norm_avx2::fits(args) ? batch_norm_avx2::scale_offset : scale_offset)(
      args, begin_row, end_row);
}

inline WideStatistics gradient_by_lanes(const BatchNormGradient& args, int64_t begin_row,
                                        int64_t end_row) noexcept {
  return (batch_norm_avx2::fits(args) ? batch_norm_avx2::gradient : gradient)(args, begin_row,
                                                                              end_row);
}

}  // namespace

const BatchNormKernels kBatchNormAvx512Vnni = {
    "batch_norm_avx512vnni", Isa::kAvx512Vnni,     channel_sums,
    scale_offset_by_lanes,   gradient_sums_strips, gradient_by_lanes};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
