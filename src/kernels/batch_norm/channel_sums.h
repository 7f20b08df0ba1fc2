// Sums over rows for each instruction set: BatchNormKernels::channel_sums.
#pragma once

#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"

namespace mantissa::kernels {

// In strips of 16 channels.
void channel_sums_avx2(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                       const ChannelSums& sums) noexcept;
// In strips of 64 channels.
void channel_sums_avx512vnni(ConstMantissaSpan in, int64_t channels, int64_t begin_row,
                             int64_t end_row, const ChannelSums& sums) noexcept;

}  // namespace mantissa::kernels
