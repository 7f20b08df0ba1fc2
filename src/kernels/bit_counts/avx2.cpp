// The counting loops compiled for AVX2.
#include <algorithm>
#include <cstring>

#include "base/target.h"
#include "kernels/bit_counts/bit_counts.h"

#if defined(__x86_64__)

namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {

constexpr size_t kVectorBytes = 32;

#include "kernels/bit_counts/bit_counts_loops.h"

}  // namespace

const BitCountKernels kBitCountsAvx2 = {"bit_counts_avx2", Isa::kAvx2, count_large};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
