// The element-wise loops, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/elementwise/elementwise_loops.h"
#include MANTISSA_LANES(integers)
// Built on both.
#include "kernels/elementwise/add_lanes.h"
#include "kernels/elementwise/shift_lanes.h"
#include "kernels/elementwise/table_lanes.h"
}  // namespace

const ElementwiseKernels MANTISSA_ROW(Elementwise) = {MANTISSA_ROW_NAME("elementwise"),
                                                      MANTISSA_ISA_NEEDS,
                                                      requantise,
                                                      normalise_input,
                                                      add_by_lanes,
                                                      add_wide_by_lanes,
                                                      relu,
                                                      relu_gradient,
                                                      sum_rows,
                                                      sum_magnitudes,
                                                      channel_maxima,
                                                      requantise_channels,
                                                      count_values,
                                                      look_up_by_lanes,
                                                      clamp,
                                                      within,
                                                      extremes,
                                                      multiply,
                                                      scale_gradient,
                                                      sum_products,
                                                      scale_within_by_lanes,
                                                      sum_by_table_by_lanes,
                                                      shift_channels};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
