// Rescaling with the CPU's own float32 products: the reference computes the same in integers.
#include <bit>

#include "base/system/target.h"
#include "kernels/rescale/rescale.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {

constexpr int64_t kWidth = 8;

int64_t rescale(const Rescale& args, int64_t begin_row, int64_t end_row) noexcept {
  const __m256 far = _mm256_set1_ps(0x1p30f);  // beyond every limit, and within int32
  const __m256 near = _mm256_set1_ps(-0x1p30f);
  const __m256i least = _mm256_set1_epi32(args.least), most = _mm256_set1_epi32(args.most);
  const __m256i counted = _mm256_set1_epi32(args.least < 0 ? args.least : INT32_MIN);
  int64_t clipped = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    int64_t c = 0;
    for (; c + kWidth <= args.channels; c += kWidth) {
      const int64_t i = row * args.channels + c;
      const __m256i sums = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.sums + i));
      const __m256 product =
          _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(args.multipliers + c));
      const __m256i wide = _mm256_cvtps_epi32(_mm256_max_ps(near, _mm256_min_ps(far, product)));
      const __m256i beyond =
          _mm256_or_si256(_mm256_cmpgt_epi32(wide, most), _mm256_cmpgt_epi32(counted, wide));
      clipped +=
          std::popcount(static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(beyond))));
      const __m256i narrow = _mm256_max_epi32(least, _mm256_min_epi32(most, wide));
      const __m128i words =
          _mm_packs_epi32(_mm256_castsi256_si128(narrow), _mm256_extracti128_si256(narrow, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(args.out + i), _mm_packs_epi16(words, words));
    }
    for (; c < args.channels; ++c)
      clipped += ref_rescale_element(&args, row * args.channels + c, c) ? 1 : 0;
  }
  return clipped;
}

}  // namespace

const RescaleKernels kRescaleAvx2 = {"rescale_avx2", kNeedsAvx2, rescale};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif
