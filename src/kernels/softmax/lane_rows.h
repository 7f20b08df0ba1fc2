// Softmax, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/softmax/sigmoid.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/targets.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include MANTISSA_LANES(integers)
#include "kernels/softmax/lane_loops.h"
#include "kernels/softmax/row_loops.h"
// Built on both.
#include "kernels/softmax/choose_loops.h"
using Sigmoids = SigmoidsBy<MANTISSA_ROW(Softmax)>;
}  // namespace

const SoftmaxKernels MANTISSA_ROW(Softmax) = {MANTISSA_ROW_NAME("softmax"),
                                              MANTISSA_ISA_NEEDS,
                                              loss,
                                              gradient,
                                              probabilities,
                                              Sigmoids::loss,
                                              Sigmoids::gradient,
                                              Sigmoids::probabilities};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
