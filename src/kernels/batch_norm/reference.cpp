// The normative batch-norm loops, compiled for any CPU.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/batch_norm/batch_norm.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace

const BatchNormKernels kBatchNormReference = {"batch_norm_reference", kNeedsNothing, channel_sums,
                                              scale_offset,           gradient_sums, gradient};

}  // namespace mantissa::kernels
