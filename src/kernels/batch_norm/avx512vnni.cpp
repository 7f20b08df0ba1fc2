// Batch norm for AVX-512: strips of 16 channels, whose parameters stay in registers, for channel
// counts that are multiples of 16; the shared loops, compiled for wider vectors, for the others.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "base/target.h"
#include "kernels/batch_norm/batch_norm.h"
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

// rne of eight n whose `half` (2^(shift-1)) was added already: floor, and where the bits shifted
// out are all zero, which is where n was a tie, the even neighbour.
struct RoundTies {
  __m512i shift, half, rest, odd;

  explicit RoundTies(int count)
      : shift(_mm512_set1_epi64(std::clamp(count, 0, 62))),
        half(_mm512_set1_epi64(count <= 0 ? 0 : int64_t{1} << (std::min(count, 62) - 1))),
        rest(_mm512_set1_epi64((int64_t{1} << std::clamp(count, 0, 62)) - 1)),
        odd(_mm512_set1_epi64(count <= 0 ? 0 : 1)) {}
  __m512i operator()(__m512i with_half) const {
    const __m512i floor = _mm512_srav_epi64(with_half, shift);
    const __mmask8 tie = _mm512_testn_epi64_mask(with_half, rest);
    return _mm512_mask_andnot_epi64(floor, tie, odd, floor);
  }
};

// Sixteen int64 as int32, clipped to its range: wide enough to see what 8 or 16 bits clip.
inline __m512i narrow_to_int32(__m512i low, __m512i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtsepi64_epi32(low)),
                            _mm512_cvtsepi64_epi32(high), 1);
}

inline __m512i clip(__m512i n, int limit) {
  return _mm512_min_epi32(_mm512_max_epi32(n, _mm512_set1_epi32(-limit)), _mm512_set1_epi32(limit));
}

inline int64_t different(__m512i a, __m512i b) {
  return __builtin_popcount(_mm512_cmpneq_epi32_mask(a, b));
}

// Sixteen numbers of a gradient, and eight of one; 0 where the mask is.
inline __m512i load_gradient(__mmask16 mask, const int16_t* from) {
  return _mm512_maskz_cvtepi16_epi32(mask,
                                     _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline __m512i load_gradient(__mmask16 mask, const int8_t* from) {
  return _mm512_maskz_cvtepi8_epi32(mask, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline __m512i load_half_gradient(__mmask8 mask, const int16_t* from) {
  return _mm512_maskz_cvtepi16_epi64(mask, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
// The load is masked, not the widening: g++ 12 cannot compile the latter from memory.
inline __m512i load_half_gradient(__mmask8 mask, const int8_t* from) {
  return _mm512_cvtepi8_epi64(_mm_maskz_loadu_epi8(mask, from));
}

// Sixteen int32 that fit the type.
inline void store_narrow(int16_t* to, __m512i numbers) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(numbers));
}
inline void store_narrow(int8_t* to, __m512i numbers) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(numbers));
}

// Half a strip of a per-channel int32 as int64, for _mm512_mul_epi32.
inline __m512i load_multipliers(const int32_t* from) {
  return _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

inline int64_t scale_offset_strip(const ScaleOffset& args, int64_t first, int64_t begin_row,
                                  int64_t end_row) noexcept {
  const RoundTies round(args.shift);
  const __m512i multiplier0 = load_multipliers(args.multiplier + first);
  const __m512i multiplier1 = load_multipliers(args.multiplier + first + 8);
  const __m512i offset0 = _mm512_add_epi64(_mm512_loadu_si512(args.offset + first), round.half);
  const __m512i offset1 = _mm512_add_epi64(_mm512_loadu_si512(args.offset + first + 8), round.half);
  // Rounding keeps the sign, so ReLU can follow it.
  const __m512i floor = _mm512_set1_epi32(args.relu ? 0 : INT32_MIN);
  const auto limit = static_cast<int32_t>(mantissa_limit(args.bits));
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t at = row * args.channels + first;
    const auto* in = reinterpret_cast<const __m128i*>(args.in + at);
    const __m512i in0 = _mm512_cvtepi8_epi64(_mm_loadl_epi64(in));
    const __m512i in1 =
        _mm512_cvtepi8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(args.in + at + 8)));
    const __m512i wide0 = _mm512_add_epi64(_mm512_mul_epi32(in0, multiplier0), offset0);
    const __m512i wide1 = _mm512_add_epi64(_mm512_mul_epi32(in1, multiplier1), offset1);
    const __m512i rounded = _mm512_max_epi32(narrow_to_int32(round(wide0), round(wide1)), floor);
    const __m512i narrow = clip(rounded, limit);
    saturated += different(rounded, narrow);
    store_narrow(args.out + at, narrow);
  }
  return saturated;
}

inline WideStatistics scale_offset_strips(const ScaleOffset& args, int64_t begin_row,
                                          int64_t end_row) noexcept {
  if (args.channels % kStrip != 0 || args.out == nullptr || args.shift < 0) {
    return scale_offset(args, begin_row, end_row);
  }
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; row += kRowBlock) {
    const int64_t stop = std::min(end_row, row + kRowBlock);
    for (int64_t first = 0; first < args.channels; first += kStrip) {
      saturated += scale_offset_strip(args, first, row, stop);
    }
  }
  return {0, saturated};
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
        load_gradient(passes<kMasked>(args.output, at), args.grad_out.as<T>() + at);
    const __m512i in =
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(args.in + at)));
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
      if (args.output != nullptr) {
        gradient_sums_of<T, true>(args, first, row, stop, sum_grad, sum_grad_in);
      } else {
        gradient_sums_of<T, false>(args, first, row, stop, sum_grad, sum_grad_in);
      }
    }
  }
}

inline void gradient_sums_strips(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                                 int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  if (args.channels % kStrip != 0) {
    return gradient_sums(args, begin_row, end_row, sum_grad, sum_grad_in);
  }
  with_gradient_type(args.grad_out.bits, [&](auto type) {
    gradient_sums_blocks<decltype(type)>(args, begin_row, end_row, sum_grad, sum_grad_in);
  });
}

struct GradientExtremes {
  __m512i low, high;

  GradientExtremes() : low(_mm512_setzero_si512()), high(_mm512_setzero_si512()) {}
  void add(__m512i wide) {
    low = _mm512_min_epi64(low, wide);
    high = _mm512_max_epi64(high, wide);
  }
};

template <typename T, typename Out, bool kMasked>
inline int64_t gradient_strip(const BatchNormGradient& args, int64_t first, int64_t begin_row,
                              int64_t end_row, GradientExtremes& extremes) noexcept {
  const RoundTies round(args.shift);
  const auto limit = static_cast<int>(mantissa_limit(args.grad_in.bits));
  const __m512i grad_multiplier0 = load_multipliers(args.grad_multiplier + first);
  const __m512i grad_multiplier1 = load_multipliers(args.grad_multiplier + first + 8);
  const __m512i in_multiplier0 = load_multipliers(args.in_multiplier + first);
  const __m512i in_multiplier1 = load_multipliers(args.in_multiplier + first + 8);
  const __m512i offset0 = _mm512_loadu_si512(args.offset + first);
  const __m512i offset1 = _mm512_loadu_si512(args.offset + first + 8);
  GradientExtremes found = extremes;
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t at = row * args.channels + first;
    const T* grad = args.grad_out.as<T>() + at;
    const auto* in0 = reinterpret_cast<const __m128i*>(args.in + at);
    const auto* in1 = reinterpret_cast<const __m128i*>(args.in + at + 8);
    const __mmask16 mask = passes<kMasked>(args.output, at);
    const __m512i grad0 = load_half_gradient(static_cast<__mmask8>(mask), grad);
    const __m512i grad1 = load_half_gradient(static_cast<__mmask8>(mask >> 8), grad + 8);
    const __m512i from_in0 = _mm512_add_epi64(
        _mm512_mul_epi32(_mm512_cvtepi8_epi64(_mm_loadl_epi64(in0)), in_multiplier0), offset0);
    const __m512i from_in1 = _mm512_add_epi64(
        _mm512_mul_epi32(_mm512_cvtepi8_epi64(_mm_loadl_epi64(in1)), in_multiplier1), offset1);
    const __m512i wide0 = _mm512_add_epi64(_mm512_mul_epi32(grad0, grad_multiplier0), from_in0);
    const __m512i wide1 = _mm512_add_epi64(_mm512_mul_epi32(grad1, grad_multiplier1), from_in1);
    found.add(wide0);
    found.add(wide1);
    const __m512i rounded = narrow_to_int32(round(_mm512_add_epi64(wide0, round.half)),
                                            round(_mm512_add_epi64(wide1, round.half)));
    const __m512i narrow = clip(rounded, limit);
    saturated += different(rounded, narrow);
    store_narrow(args.grad_in.as<Out>() + at, narrow);
  }
  extremes = found;
  return saturated;
}

template <typename T, typename Out>
inline WideStatistics gradient_blocks(const BatchNormGradient& args, int64_t begin_row,
                                      int64_t end_row) noexcept {
  GradientExtremes extremes;
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; row += kRowBlock) {
    const int64_t stop = std::min(end_row, row + kRowBlock);
    for (int64_t first = 0; first < args.channels; first += kStrip) {
      saturated += args.output != nullptr
                       ? gradient_strip<T, Out, true>(args, first, row, stop, extremes)
                       : gradient_strip<T, Out, false>(args, first, row, stop, extremes);
    }
  }
  const int64_t low = _mm512_reduce_min_epi64(extremes.low);
  const int64_t high = _mm512_reduce_max_epi64(extremes.high);
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

inline WideStatistics gradient_strips(const BatchNormGradient& args, int64_t begin_row,
                                      int64_t end_row) noexcept {
  if (args.channels % kStrip != 0 || args.grad_in.data == nullptr || args.grad_in.bits > 16) {
    return gradient(args, begin_row, end_row);
  }
  return with_gradient_type(args.grad_out.bits, [&](auto from) {
    return with_gradient_type(args.grad_in.bits, [&](auto to) {
      return gradient_blocks<decltype(from), decltype(to)>(args, begin_row, end_row);
    });
  });
}

}  // namespace

const BatchNormKernels kBatchNormAvx512Vnni = {
    "batch_norm_avx512vnni", Isa::kAvx512Vnni,     channel_sums,
    scale_offset_strips,     gradient_sums_strips, gradient_strips};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
