// The normative update loops, compiled for any CPU.
#include <algorithm>

#include "kernels/update/update.h"
#include "numerics/lazy_update.h"

namespace mantissa::kernels {
namespace {
#include "kernels/update/update_loops.h"
}  // namespace

const UpdateKernels kUpdateReference = {"update_reference", Isa::kScalar, gradient_extremes,
                                        direction_extremes, step,         commit};

}  // namespace mantissa::kernels
