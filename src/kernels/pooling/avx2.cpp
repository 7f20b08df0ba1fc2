// The pooling loops compiled for AVX2.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/system/target.h"
#include "kernels/pooling/pooling.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {
#include "kernels/pooling/pooling_loops.h"
}  // namespace

const PoolingKernels kPoolingAvx2 = {"pooling_avx2",   kNeedsAvx2,
                                     max_pool,         max_pool_gradient,
                                     max_pool_windows, max_pool_windows_gradient,
                                     average_pool,     average_pool_gradient,
                                     image_sums,       broadcast};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
