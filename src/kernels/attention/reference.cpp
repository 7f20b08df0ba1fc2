// The normative loops of attention, compiled for any CPU.
#include <algorithm>

#include "kernels/attention/attention.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {
#include "kernels/attention/attention_loops.h"
}  // namespace

const AttentionKernels kAttentionReference = {"attention_reference", kNeedsNothing, forward,
                                              backward};

}  // namespace mantissa::kernels
