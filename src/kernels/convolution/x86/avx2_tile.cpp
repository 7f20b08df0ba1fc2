// The register tile of AVX2: two instructions per vector of products.
#if defined(__x86_64__)
#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx2_vectors.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {
namespace {

// Inline assembly because g++ 12 spills accumulators of the intrinsics in nested loops.
MANTISSA_INLINE void multiply_add(__m256i& sum, __m256i pairs, __m256i vector) {
  __m256i products;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
      : "+x"(sum), "=&x"(products)
      : "x"(pairs), "x"(vector));
}
MANTISSA_INLINE void multiply_add_last(__m256i& sum, __m256i& pairs, __m256i vector) {
  asm("vpmaddwd %2, %1, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "+x"(pairs) : "x"(vector));
}

#include "kernels/convolution/x86/avx2_tile_loops.h"

}  // namespace

const Tiles kAvx2Tiles = kTiles;

}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
#endif
