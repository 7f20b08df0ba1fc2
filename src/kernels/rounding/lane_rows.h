// Stochastic rounding, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "kernels/rounding/rounding.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/common/round_even_loops.h"
#include "kernels/rounding/rounding_loops.h"
}  // namespace

const RoundingKernels MANTISSA_ROW(Rounding) = {MANTISSA_ROW_NAME("rounding"),
                                                MANTISSA_ISA_NEEDS,
                                                round_stochastically,
                                                round_to_nearest,
                                                maximum,
                                                keep_mask};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
