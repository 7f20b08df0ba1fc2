// Batch norm for AVX-512 VNNI, in strips of 32 channels.
#if defined(__x86_64__)
#include "kernels/batch_norm/avx512vnni.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/system/target.h"
#include "numerics/rounding.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels {
namespace {
namespace loops {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace loops

// Each of these needs those before it.
// clang-format off
#include "kernels/batch_norm/avx512vnni_vectors.h"
#include "kernels/batch_norm/strips.h"
#include "kernels/batch_norm/fixed_point_strips.h"
#include "kernels/batch_norm/gradient_sums_strips.h"
#include "kernels/batch_norm/gradient_strips.h"
#include "kernels/batch_norm/scale_offset_strips.h"
// clang-format on
}  // namespace

const BatchNormKernels kBatchNormAvx512Vnni = {"batch_norm_avx512vnni", kNeedsAvx512Vnni,
                                               channel_sums_avx512vnni, scale_offset_in_strips,
                                               gradient_sums_in_strips, gradient_in_strips};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
