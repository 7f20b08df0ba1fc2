// The batch-norm loops compiled for AVX2.
#include <algorithm>

#include "base/target.h"
#include "kernels/batch_norm/batch_norm.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace

const BatchNormKernels kBatchNormAvx2 = {"batch_norm_avx2", Isa::kAvx2,    channel_sums,
                                         scale_offset,      gradient_sums, gradient};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
