// The update, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/update/update.h"
#include "numerics/lazy_update.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/update/update_loops.h"
// Built on these.
#include MANTISSA_LANES(integers)
// Built on both.
#include "kernels/update/lane_loops.h"
// Built on update_loops.h.
#include "kernels/update/optimizer_loops.h"
// Built on all of these.
#include MANTISSA_LANES(reals)
// Built on that.
#include "kernels/update/adam_lane_loops.h"
}  // namespace

const UpdateKernels MANTISSA_ROW(Update) = {MANTISSA_ROW_NAME("update"),
                                            MANTISSA_ISA_NEEDS,
                                            gradient_extremes,
                                            sketch_extremes_lanes,
                                            direction_extremes_lanes,
                                            count_directions<direction_extremes_lanes>,
                                            step_lanes,
                                            change_unit,
                                            look_ahead,
                                            adam_extremes_lanes,
                                            adam_direction<RealArithmetic>,
                                            adam_direction<IntegerArithmetic>,
                                            sum_of_squares};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
