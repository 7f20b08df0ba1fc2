// The update loops compiled for AVX-512.
#include <algorithm>

#include "base/target.h"
#include "kernels/update/update.h"
#include "numerics/lazy_update.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/update/update_loops.h"
}  // namespace

const UpdateKernels kUpdateAvx512Vnni = {
    "update_avx512vnni", Isa::kAvx512Vnni, gradient_extremes, direction_extremes, step, commit};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
