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

void max_pool_gradient_masked(const MaxPoolShape& s, const int8_t* in, const int16_t* grad_out,
                              int16_t* grad_in, int64_t begin, int64_t end) noexcept {
  const int64_t image = s.in_height * s.in_width * s.channels;
  const bool remainder = s.in_height % s.window != 0 || s.in_width % s.window != 0;
  if (remainder) std::fill(grad_in + begin * image, grad_in + end * image, int16_t{0});
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
    const __m256i grad = _mm256_maskz_loadu_epi16(lanes, grad_out + at);
    tap = 0;
    for_each_tap(s, [&](int64_t offset) {
      const __mmask16 first = _mm_cmpeq_epi8_mask(which, _mm_set1_epi8(tap++));
      _mm256_mask_storeu_epi16(grad_in + corner + offset, lanes,
                               _mm256_maskz_mov_epi16(first, grad));
    });
  });
}

}  // namespace

const PoolingKernels kPoolingAvx512Vnni = {"pooling_avx512vnni", Isa::kAvx512Vnni,
                                           max_pool_masked,      max_pool_gradient_masked,
                                           image_sums,           broadcast};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif
