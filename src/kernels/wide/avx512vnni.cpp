// The loops of wide numbers compiled for AVX-512.
#include <algorithm>
#include <cstring>

#include "base/system/target.h"
#include "kernels/wide/wide.h"
#include "numerics/normal_distribution.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include "kernels/lanes/avx512vnni.h"
// Built on these.
#include "kernels/wide/channel_products.h"
#include "kernels/wide/wide_loops.h"
}  // namespace

const WideKernels kWideAvx512Vnni = {
    "wide_avx512vnni", kNeedsAvx512Vnni, narrow,  add_shifted, plane, group_sums, add,
    first_sums,        channel_products, rescale, shift_sums,  gelu};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
