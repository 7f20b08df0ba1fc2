// The loops of depthwise convolutions, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/checked.h"
#include "kernels/depthwise/row_loops.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels::depthwise {
MANTISSA_ISA_BEGIN
namespace {
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/depthwise/depthwise_loops.h"
}  // namespace

const RowLoops MANTISSA_ROW(RowLoops) = {kWords, pair, correlate, add_product_rows, drain};

}  // namespace mantissa::kernels::depthwise
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
