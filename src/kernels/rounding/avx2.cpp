// The stochastic rounding loops compiled for AVX2.
#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "base/target.h"
#include "kernels/rounding/rounding.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {

using Lanes [[gnu::vector_size(32)]] = uint64_t;

// Products of the low halves of the lanes.
inline Lanes multiply_halves(Lanes a, Lanes b) {
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

#include "kernels/round_even_loops.h"
#include "kernels/rounding/rounding_loops.h"

}  // namespace

const RoundingKernels kRoundingAvx2 = {"rounding_avx2",  Isa::kAvx2, round_stochastically,
                                       round_to_nearest, maximum,    keep_mask};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
