// The counting loops compiled for AVX2.
#include <algorithm>
#include <cstring>

#include "base/system/target.h"
#include "kernels/bit_counts/bit_counts.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {

constexpr size_t kVectorBytes = 32;

#include "kernels/bit_counts/bit_counts_loops.h"

Bytes look_up(Bytes table, Bytes at) {
  return reinterpret_cast<Bytes>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(table), reinterpret_cast<__m256i>(at)));
}
Bytes absolute(Bytes mantissas) {
  return reinterpret_cast<Bytes>(_mm256_abs_epi8(reinterpret_cast<__m256i>(mantissas)));
}
Words absolute(Words mantissas) {
  return reinterpret_cast<Words>(_mm256_abs_epi16(reinterpret_cast<__m256i>(mantissas)));
}
Bytes pack(Words first, Words second) {
  return reinterpret_cast<Bytes>(
      _mm256_packus_epi16(reinterpret_cast<__m256i>(first), reinterpret_cast<__m256i>(second)));
}

}  // namespace

const BitCountKernels kBitCountsAvx2 = {"bit_counts_avx2", kNeedsAvx2, count_large};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
