// What the AVX-512 row of batch norm has in a file of its own.
#pragma once

#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"

namespace mantissa::kernels {

// BatchNormKernels::channel_sums in strips of 64 channels.
void channel_sums_avx512vnni(ConstValue in, int64_t channels, int64_t begin_row, int64_t end_row,
                             const ChannelSums& sums) noexcept;

}  // namespace mantissa::kernels
