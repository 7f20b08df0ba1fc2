// Loops over floats for AVX-512.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/system/target.h"
#include "kernels/floats/floats.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
using Floats [[gnu::vector_size(64)]] = float;
using Ints [[gnu::vector_size(64)]] = int32_t;
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm512_fmadd_ps(a, b, c); }
inline Floats root(Floats a) noexcept { return _mm512_sqrt_ps(a); }
#include "kernels/floats/loops.h"
}  // namespace

const FloatKernels kFloatsAvx512Vnni = {"floats_avx512vnni", kNeedsAvx512Vnni,
                                        MANTISSA_FLOAT_LOOPS};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
