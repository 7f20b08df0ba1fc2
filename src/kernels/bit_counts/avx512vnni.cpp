// The counting loops compiled for AVX-512.
#include <algorithm>
#include <cstring>

#include "base/target.h"
#include "kernels/bit_counts/bit_counts.h"

#if defined(__x86_64__)

namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {

constexpr size_t kVectorBytes = 64;

#include "kernels/bit_counts/bit_counts_loops.h"

}  // namespace

const BitCountKernels kBitCountsAvx512Vnni = {"bit_counts_avx512vnni", Isa::kAvx512Vnni,
                                              count_large};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
