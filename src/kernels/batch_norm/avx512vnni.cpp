// The batch-norm loops compiled for AVX-512.
#include <algorithm>

#include "base/target.h"
#include "kernels/batch_norm/batch_norm.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace
MANTISSA_TARGET_END

const BatchNormKernels kBatchNormAvx512Vnni = {"batch_norm_avx512vnni", Isa::kAvx512Vnni, channel_sums, scale_offset, gradient_sums, gradient};

}  // namespace mantissa::kernels
#endif
