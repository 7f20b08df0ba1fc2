// The counting loops, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <cstring>

#include "kernels/bit_counts/bit_counts.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include MANTISSA_LANES(bytes)
// Built on these.
#include "kernels/bit_counts/bit_counts_loops.h"
}  // namespace

const BitCountKernels MANTISSA_ROW(BitCounts) = {MANTISSA_ROW_NAME("bit_counts"),
                                                 MANTISSA_ISA_NEEDS, count_large};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
