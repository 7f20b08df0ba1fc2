// The depthwise loops compiled for AVX2.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "base/system/target.h"
#include "kernels/depthwise/row_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels::depthwise {
MANTISSA_TARGET_AVX2_BEGIN
namespace {

constexpr int64_t kLanes = 8;
using Lanes [[gnu::vector_size(32)]] = int32_t;

inline void multiply_add(Lanes& sum, Lanes a, Lanes b) {
  sum += reinterpret_cast<Lanes>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

inline __m128i narrowed(Lanes lanes, int16_t) {
  const auto all = reinterpret_cast<__m256i>(lanes);
  return _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

inline __m128i narrowed(Lanes lanes, int8_t) {
  const __m128i wide = narrowed(lanes, int16_t{});
  return _mm_packs_epi16(wide, wide);
}

#include "kernels/depthwise/depthwise_loops.h"

}  // namespace

const RowLoops kAvx2Loops = {kLanes, pair, correlate, add_products, drain};

}  // namespace mantissa::kernels::depthwise
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
