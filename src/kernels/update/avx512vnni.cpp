// The update for AVX-512.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/target.h"
#include "kernels/update/update.h"
#include "numerics/lazy_update.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/update/update_loops.h"

constexpr int64_t kLanes = 8;
constexpr bool kHas64BitLanes = true;
using Lanes [[gnu::vector_size(64)]] = int64_t;
using UnsignedLanes [[gnu::vector_size(64)]] = uint64_t;

inline Lanes load(const int64_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm512_loadu_si512(from));
}
inline Lanes load(const int32_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline Lanes load(const int16_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_cvtepi16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline Lanes load(const int8_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm512_cvtepi8_epi64(_mm_loadu_si64(from)));
}

inline void store(int64_t* to, Lanes lanes) noexcept { std::memcpy(to, &lanes, sizeof(lanes)); }
inline void store(int32_t* to, Lanes lanes) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi64_epi32(reinterpret_cast<__m512i>(lanes)));
}
inline void store(int16_t* to, Lanes lanes) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi64_epi16(reinterpret_cast<__m512i>(lanes)));
}

inline Lanes product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_mul_epi32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
inline Lanes unsigned_product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

#include "kernels/update/lane_loops.h"

// All 8 at once; the array has a whole number of them.
inline void square_roots(double* values, int64_t count) noexcept {
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm512_store_pd(values + i, _mm512_sqrt_pd(_mm512_load_pd(values + i)));
  }
}

#include "kernels/update/optimizer_loops.h"
// Built on these.
#include "kernels/update/adam_direction_loops.h"
}  // namespace

const UpdateKernels kUpdateAvx512Vnni = {
    "update_avx512vnni", Isa::kAvx512Vnni, gradient_extremes, direction_extremes_lanes,
    step_lanes,          change_unit,      look_ahead,        adam_extremes,
    adam_direction,      sum_of_squares};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
