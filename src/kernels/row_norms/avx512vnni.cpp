// Norms of rows for AVX-512.
#include <algorithm>
#include <cstring>

#include "base/system/target.h"
#include "kernels/row_norms/elements.h"
#include "kernels/row_norms/row_norms.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include "kernels/lanes/avx512vnni.h"
// Built on these.
#include "kernels/lanes/arithmetic.h"
// Built on that.
#include "kernels/row_norms/lane_loops.h"
}  // namespace

const RowNormKernels kRowNormsAvx512Vnni = {
    "row_norms_avx512vnni", kNeedsAvx512Vnni, sums, normalise, scale, gradient, add_gradients};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
