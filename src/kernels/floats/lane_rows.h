// Loops over floats, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/floats/floats.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_FLOATS_BEGIN
namespace {
#include MANTISSA_LANES(floats)
// Built on these.
#include "kernels/floats/loops.h"
}  // namespace

const FloatKernels MANTISSA_ROW(Floats) = {MANTISSA_ROW_NAME("floats"), MANTISSA_ISA_NEEDS,
                                           MANTISSA_FLOAT_LOOPS};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
