// The counting loops compiled for AVX-512.
#include <algorithm>
#include <cstring>

#include "base/system/target.h"
#include "kernels/bit_counts/bit_counts.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {

constexpr size_t kVectorBytes = 64;

#include "kernels/bit_counts/bit_counts_loops.h"

Bytes look_up(Bytes table, Bytes at) {
  return reinterpret_cast<Bytes>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(table), reinterpret_cast<__m512i>(at)));
}
Bytes absolute(Bytes mantissas) {
  return reinterpret_cast<Bytes>(_mm512_abs_epi8(reinterpret_cast<__m512i>(mantissas)));
}
Words absolute(Words mantissas) {
  return reinterpret_cast<Words>(_mm512_abs_epi16(reinterpret_cast<__m512i>(mantissas)));
}
Bytes pack(Words first, Words second) {
  return reinterpret_cast<Bytes>(
      _mm512_packus_epi16(reinterpret_cast<__m512i>(first), reinterpret_cast<__m512i>(second)));
}

}  // namespace

const BitCountKernels kBitCountsAvx512Vnni = {"bit_counts_avx512vnni", kNeedsAvx512Vnni,
                                              count_large};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
