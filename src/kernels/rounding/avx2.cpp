// The stochastic rounding loops compiled for AVX2.
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
MANTISSA_TARGET_AVX2_BEGIN
namespace {

#include "kernels/lanes/avx2.h"

inline UnsignedLanes exclusive_or(UnsignedLanes a, UnsignedLanes b, UnsignedLanes c) {
  return a ^ b ^ c;
}

// Packs 16 words.
inline __m256i packed(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xd8);
}

// The low 16 bits of each word, then the high ones.
inline void store_halves_apart(uint16_t* to, const Words (&words)[2]) {
  const __m256i low_half = _mm256_set1_epi32(0xffff);
  const auto first = reinterpret_cast<__m256i>(words[0]);
  const auto second = reinterpret_cast<__m256i>(words[1]);
  auto* halves = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(
      halves, packed(_mm256_and_si256(first, low_half), _mm256_and_si256(second, low_half)));
  _mm256_storeu_si256(halves + 1,
                      packed(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16)));
}

inline UnsignedHalves shift_right(UnsignedHalves halves, int count) {
  return reinterpret_cast<UnsignedHalves>(
      _mm256_srl_epi16(reinterpret_cast<__m256i>(halves), _mm_cvtsi32_si128(count)));
}

inline int64_t count_different(Halves a, Halves b) {
  const auto equal = _mm256_cmpeq_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
  return std::popcount(~static_cast<uint32_t>(_mm256_movemask_epi8(equal))) / 2;
}

#include "kernels/common/round_even_loops.h"
#include "kernels/rounding/rounding_loops.h"

}  // namespace

const RoundingKernels kRoundingAvx2 = {"rounding_avx2",  kNeedsAvx2, round_stochastically,
                                       round_to_nearest, maximum,    keep_mask};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
