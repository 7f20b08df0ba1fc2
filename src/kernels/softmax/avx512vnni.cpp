// Softmax for AVX-512.
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
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/lanes/avx512vnni.h"
#include "kernels/softmax/lane_loops.h"
#include "kernels/softmax/row_loops.h"
// Built on both.
#include "kernels/softmax/choose_loops.h"
}  // namespace

const SoftmaxKernels kSoftmaxAvx512Vnni = {"softmax_avx512vnni", kNeedsAvx512Vnni, loss, gradient,
                                           probabilities};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
