// Expansion of weights in blocks, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/blocks/blocks.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/blocks/expand_loops.h"
}  // namespace

const BlockKernels MANTISSA_ROW(Blocks) = {MANTISSA_ROW_NAME("blocks"), MANTISSA_ISA_NEEDS, expand};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
