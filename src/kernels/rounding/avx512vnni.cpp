// The stochastic rounding loops compiled for AVX-512.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "base/system/target.h"
#include "kernels/rounding/rounding.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {

#include "kernels/lanes/avx512vnni.h"

inline UnsignedLanes exclusive_or(UnsignedLanes a, UnsignedLanes b, UnsignedLanes c) {
  return reinterpret_cast<UnsignedLanes>(
      _mm512_ternarylogic_epi64(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b),
                                reinterpret_cast<__m512i>(c), 0x96));
}

// The low 16 bits of each word, then the high ones.
inline void store_halves_apart(uint16_t* to, const Words (&words)[1]) {
  const __m512i places =
      _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                       22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(places, reinterpret_cast<__m512i>(words[0])));
}

inline UnsignedHalves shift_right(UnsignedHalves halves, int count) {
  return reinterpret_cast<UnsignedHalves>(_mm512_srlv_epi16(
      reinterpret_cast<__m512i>(halves), _mm512_set1_epi16(static_cast<int16_t>(count))));
}

inline int64_t count_different(Halves a, Halves b) {
  return std::popcount(
      _mm512_cmpneq_epi16_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

#include "kernels/common/round_even_loops.h"
#include "kernels/rounding/rounding_loops.h"

}  // namespace

const RoundingKernels kRoundingAvx512Vnni = {
    "rounding_avx512vnni", kNeedsAvx512Vnni, round_stochastically,
    round_to_nearest,      maximum,          keep_mask};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
