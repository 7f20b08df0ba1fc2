// Softmax for AVX2.
#include <algorithm>
#include <cstring>

#include "base/system/target.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/targets.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {
#include "kernels/lanes/avx2.h"
#include "kernels/softmax/lane_loops.h"
#include "kernels/softmax/row_loops.h"
// Built on both.
#include "kernels/softmax/choose_loops.h"
}  // namespace

const SoftmaxKernels kSoftmaxAvx2 = {"softmax_avx2", kNeedsAvx2, loss, gradient, probabilities};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
