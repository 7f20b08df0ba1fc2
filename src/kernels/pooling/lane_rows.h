// The pooling loops, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/pooling/pooling.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)
namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/pooling/pooling_loops.h"
}  // namespace

const PoolingKernels MANTISSA_ROW(Pooling) = {MANTISSA_ROW_NAME("pooling"),
                                              MANTISSA_ISA_NEEDS,
                                              max_pool,
                                              max_pool_gradient,
                                              max_pool_windows,
                                              max_pool_windows_gradient,
                                              average_pool,
                                              average_pool_gradient,
                                              image_sums,
                                              broadcast};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
