// Attention for AVX-512.
#include <algorithm>
#include <cstring>

#include "base/system/target.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_room.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include "kernels/lanes/avx512vnni.h"
// Built on these.
#include "kernels/lanes/arithmetic.h"
// Built on that.
#include "kernels/attention/pair_products.h"
#include "kernels/attention/row_loops.h"
#include "kernels/lanes/exp2.h"
// Built on all.
#include "kernels/attention/block_loops.h"
}  // namespace

const AttentionKernels kAttentionAvx512Vnni = {"attention_avx512vnni", kNeedsAvx512Vnni, forward,
                                               backward};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
