// Products of few rows, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/row_products/row_products.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/row_products/product_loops.h"
}  // namespace

const RowProductKernels MANTISSA_ROW(RowProducts) = {MANTISSA_ROW_NAME("row_products"),
                                                     MANTISSA_ISA_NEEDS, multiply};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
