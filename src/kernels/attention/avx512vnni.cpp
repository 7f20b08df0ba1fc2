// The loops of attention compiled for AVX-512.
#include <algorithm>

#include "base/target.h"
#include "kernels/attention/attention.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/attention/attention_loops.h"
}  // namespace

const AttentionKernels kAttentionAvx512Vnni = {"attention_avx512vnni", kNeedsAvx512Vnni, forward,
                                               backward};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
