// Rescaling with the CPU's own float32 products: the reference computes the same in integers.
#include <bit>

#include "base/system/target.h"
#include "kernels/rescale/rescale.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {

constexpr int64_t kWidth = 16;
constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

int64_t rescale(const Rescale& args, int64_t begin_row, int64_t end_row) noexcept {
  const __m512 far = _mm512_set1_ps(0x1p30f);  // beyond every limit, and within int32
  const __m512 near = _mm512_set1_ps(-0x1p30f);
  const __m512i least = _mm512_set1_epi32(args.least), most = _mm512_set1_epi32(args.most);
  const __m512i counted = _mm512_set1_epi32(args.least < 0 ? args.least : INT32_MIN);
  int64_t clipped = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args.channels; c += kWidth) {
      const int64_t i = row * args.channels + c, left = args.channels - c;
      const auto lanes =
          static_cast<__mmask16>(left >= kWidth ? 0xffff : (uint32_t{1} << left) - 1);
      const __m512i sums = _mm512_maskz_loadu_epi32(lanes, args.sums + i);
      const __m512 factors = _mm512_maskz_loadu_ps(lanes, args.multipliers + c);
      const __m512 product =
          _mm512_mul_round_ps(_mm512_cvt_roundepi32_ps(sums, kNearest), factors, kNearest);
      const __m512i wide =
          _mm512_cvt_roundps_epi32(_mm512_max_ps(near, _mm512_min_ps(far, product)), kNearest);
      const uint32_t beyond = _mm512_mask_cmpgt_epi32_mask(lanes, wide, most) |
                              _mm512_mask_cmpgt_epi32_mask(lanes, counted, wide);
      clipped += std::popcount(beyond);
      const __m512i narrow = _mm512_max_epi32(least, _mm512_min_epi32(most, wide));
      _mm512_mask_cvtepi32_storeu_epi8(args.out + i, lanes, narrow);
    }
  }
  return clipped;
}

}  // namespace

const RescaleKernels kRescaleAvx512Vnni = {"rescale_avx512vnni", kNeedsAvx512Vnni, rescale};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif
