// The loops of wide numbers, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/wide/wide.h"
#include "numerics/normal_distribution.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/wide/channel_products.h"
#include "kernels/wide/wide_loops.h"
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
                                        gelu};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
