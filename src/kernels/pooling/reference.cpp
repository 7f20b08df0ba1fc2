// The normative pooling loops, compiled for any CPU.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/pooling/pooling.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {
#include "kernels/pooling/pooling_loops.h"
}  // namespace

const PoolingKernels kPoolingReference = {"pooling_reference",
                                          kNeedsNothing,
                                          max_pool,
                                          max_pool_gradient,
                                          max_pool_windows,
                                          max_pool_windows_gradient,
                                          average_pool,
                                          average_pool_gradient,
                                          image_sums,
                                          broadcast};

}  // namespace mantissa::kernels
