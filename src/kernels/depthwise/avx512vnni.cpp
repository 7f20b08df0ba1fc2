// The depthwise loops compiled for AVX-512.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "base/system/target.h"
#include "kernels/depthwise/row_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels::depthwise {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {

constexpr int64_t kLanes = 16;
using Lanes [[gnu::vector_size(64)]] = int32_t;

inline void multiply_add(Lanes& sum, Lanes a, Lanes b) {
  sum = reinterpret_cast<Lanes>(_mm512_dpwssd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

inline __m256i narrowed(Lanes lanes, int16_t) {
  return _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(lanes));
}

inline __m128i narrowed(Lanes lanes, int8_t) {
  return _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(lanes));
}

#include "kernels/depthwise/depthwise_loops.h"

}  // namespace

const RowLoops kAvx512VnniLoops = {kLanes, pair, correlate, add_products, drain};

}  // namespace mantissa::kernels::depthwise
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
