// The stochastic rounding loops compiled for AVX2.
#include <algorithm>

#include "base/random.h"
#include "base/target.h"
#include "kernels/rounding/rounding.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {
#include "kernels/rounding/rounding_loops.h"
}  // namespace

const RoundingKernels kRoundingAvx2 = {"rounding_avx2", Isa::kAvx2, round_stochastically, maximum};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
