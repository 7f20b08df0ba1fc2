// The register tile of AVX-VNNI: one instruction per vector of products. Wraps around as the two of
// AVX2 do.
#if defined(__x86_64__)
#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx2_vectors.h"

MANTISSA_TARGET_AVXVNNI_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {
namespace {

// Inline assembly because g++ 12 spills accumulators of the intrinsics in nested loops. "{vex}"
// keeps the assembler from the encoding of AVX-512.
MANTISSA_INLINE void multiply_add(__m256i& sum, __m256i pairs, __m256i vector) {
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(pairs), "x"(vector));
}
MANTISSA_INLINE void multiply_add_last(__m256i& sum, __m256i& pairs, __m256i vector) {
  multiply_add(sum, pairs, vector);
}

#include "kernels/convolution/x86/avx2_tile_loops.h"

}  // namespace

const Tiles kAvxVnniTiles = kTiles;

}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
#endif
