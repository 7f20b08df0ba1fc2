// Pooling for AVX-512: maxima in masked strips of 16 channels, so that few channels (LeNet's 6)
// cost no more than 16; the other loops compiled as they are.
#include <algorithm>
#include <type_traits>

#include "base/target.h"
#include "kernels/pooling/pooling.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/pooling/pooling_loops.h"

// The first `width` of 16 lanes.
inline __mmask16 lanes_of(int64_t width) noexcept {
  return static_cast<__mmask16>((uint32_t{1} << width) - 1);
}

// Calls visit(offset) for each tap of the window in row-major order.
template <typename Visit>
inline void for_each_tap(const MaxPoolShape& s, Visit&& visit) noexcept {
  for (int64_t ky = 0; ky < s.window; ++ky) {
    for (int64_t kx = 0; kx < s.window; ++kx) visit((ky * s.in_width + kx) * s.channels);
  }
}

void max_pool_masked(const MaxPoolShape& s, const int8_t* in, int8_t* out, int64_t begin,
                     int64_t end) noexcept {
  for_each_strip(s, begin, end, [&](int64_t corner, int64_t at, int64_t width) {
    const __mmask16 lanes = lanes_of(width);
    __m128i best = _mm_set1_epi8(-128);
    for_each_tap(s, [&](int64_t offset) {
      best = _mm_max_epi8(best, _mm_maskz_loadu_epi8(lanes, in + corner + offset));
    });
    _mm_mask_storeu_epi8(out + at, lanes, best);
  });
}

// A strip of a gradient; nothing is read where `lanes` is 0.
inline __m256i load_strip(__mmask16 lanes, const int16_t* from) noexcept {
  return _mm256_maskz_loadu_epi16(lanes, from);
}
inline __m128i load_strip(__mmask16 lanes, const int8_t* from) noexcept {
  return _mm_maskz_loadu_epi8(lanes, from);
}

// Stores the strip where `lanes` is 1, with 0 where `chosen` is 0.
inline void store_strip(int16_t* to, __mmask16 lanes, __mmask16 chosen, __m256i strip) noexcept {
  _mm256_mask_storeu_epi16(to, lanes, _mm256_maskz_mov_epi16(chosen, strip));
}
inline void store_strip(int8_t* to, __mmask16 lanes, __mmask16 chosen, __m128i strip) noexcept {
  _mm_mask_storeu_epi8(to, lanes, _mm_maskz_mov_epi8(chosen, strip));
}

template <typename T>
void max_pool_gradient_strips(const MaxPoolShape& s, const int8_t* in, const T* grad_out,
                              T* grad_in, int64_t begin, int64_t end) noexcept {
  const int64_t image = s.in_height * s.in_width * s.channels;
  const bool remainder = s.in_height % s.window != 0 || s.in_width % s.window != 0;
  if (remainder) std::fill(grad_in + begin * image, grad_in + end * image, T{0});
  for_each_strip(s, begin, end, [&](int64_t corner, int64_t at, int64_t width) {
    const __mmask16 lanes = lanes_of(width);
    __m128i best = _mm_maskz_loadu_epi8(lanes, in + corner);
    __m128i which = _mm_setzero_si128();
    int8_t tap = 0;
    for_each_tap(s, [&](int64_t offset) {
      const __m128i value = _mm_maskz_loadu_epi8(lanes, in + corner + offset);
      const __mmask16 above = _mm_cmpgt_epi8_mask(value, best);
      which = _mm_mask_mov_epi8(which, above, _mm_set1_epi8(tap++));
      best = _mm_max_epi8(best, value);
    });
    const auto grad = load_strip(lanes, grad_out + at);
    tap = 0;
    for_each_tap(s, [&](int64_t offset) {
      const __mmask16 first = _mm_cmpeq_epi8_mask(which, _mm_set1_epi8(tap++));
      store_strip(grad_in + corner + offset, lanes, first, grad);
    });
  });
}

void max_pool_gradient_masked(const MaxPoolShape& s, const int8_t* in, ConstGradient grad_out,
                              Gradient grad_in, int64_t begin, int64_t end) noexcept {
  with_gradient_type(grad_out.bits, [&](auto type) {
    using T = decltype(type);
    max_pool_gradient_strips(s, in, grad_out.as<T>(), grad_in.as<T>(), begin, end);
  });
}

}  // namespace

const PoolingKernels kPoolingAvx512Vnni = {"pooling_avx512vnni", Isa::kAvx512Vnni,
                                           max_pool_masked,      max_pool_gradient_masked,
                                           image_sums,           broadcast};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif
