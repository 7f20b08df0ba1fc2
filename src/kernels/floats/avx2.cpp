// Loops over floats for AVX2 and FMA.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/system/target.h"
#include "kernels/floats/floats.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_BEGIN("avx2,fma")
namespace {
using Floats [[gnu::vector_size(32)]] = float;
using Ints [[gnu::vector_size(32)]] = int32_t;
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm256_fmadd_ps(a, b, c); }
inline Floats root(Floats a) noexcept { return _mm256_sqrt_ps(a); }
#include "kernels/floats/loops.h"
}  // namespace

const FloatKernels kFloatsAvx2 = {"floats_avx2", kNeedsAvx2, MANTISSA_FLOAT_LOOPS};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
