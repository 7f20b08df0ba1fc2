// Common to the AVX-512 sources of batch norm. Include it outside of any region.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns inside its own intrinsics, which pass values that they then ignore.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"

namespace mantissa::kernels {

// BatchNormKernels::channel_sums in strips of 64 channels.
void channel_sums_avx512vnni(ConstMantissaSpan in, int64_t channels, int64_t begin_row,
                             int64_t end_row, const ChannelSums& sums) noexcept;

}  // namespace mantissa::kernels
