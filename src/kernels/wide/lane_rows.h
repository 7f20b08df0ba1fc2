// The loops of wide numbers, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/wide/wide.h"
#include "numerics/exponential.h"
#include "numerics/normal_distribution.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/lanes/arithmetic.h"
#include "kernels/wide/channel_products.h"
#include "kernels/wide/product_lanes.h"
#include "kernels/wide/wide_loops.h"
// Built on arithmetic.h.
#include "kernels/lanes/exp2.h"
// Built on that.
#include "kernels/wide/silu_lanes.h"
}  // namespace

const WideKernels MANTISSA_ROW(Wide) = {MANTISSA_ROW_NAME("wide"),
                                        MANTISSA_ISA_NEEDS,
                                        narrow,
                                        add_shifted,
                                        plane,
                                        group_sums,
                                        add,
                                        first_sums,
                                        channel_products,
                                        rescale,
                                        shift_sums,
                                        products,
                                        gelu,
                                        silu,
                                        silu_gradient};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
