// Batch norm in strips of channels, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/channel_sums.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
namespace loops {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace loops

// Each of these needs those before it.
// clang-format off
#include MANTISSA_LANES(pairs)
#include "kernels/batch_norm/strips.h"
#include "kernels/batch_norm/fixed_point_strips.h"
#include "kernels/batch_norm/gradient_sums_strips.h"
#include "kernels/batch_norm/gradient_strips.h"
#include "kernels/batch_norm/scale_offset_strips.h"
// clang-format on
}  // namespace

const BatchNormKernels MANTISSA_ROW(BatchNorm) = {
    MANTISSA_ROW_NAME("batch_norm"), MANTISSA_ISA_NEEDS,      MANTISSA_ISA_FUNCTION(channel_sums),
    scale_offset_in_strips,          gradient_sums_in_strips, gradient_in_strips};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
