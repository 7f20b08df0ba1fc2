// Norms of rows, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/row_norms/elements.h"
#include "kernels/row_norms/row_norms.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/lanes/arithmetic.h"
// Built on that.
#include "kernels/row_norms/lane_loops.h"
}  // namespace

const RowNormKernels MANTISSA_ROW(RowNorms) = {MANTISSA_ROW_NAME("row_norms"),
                                               MANTISSA_ISA_NEEDS,
                                               sums,
                                               normalise,
                                               scale,
                                               gradient,
                                               add_gradients};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
