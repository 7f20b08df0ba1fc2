// The AVX2 row's functions; see batch_norm.h.
#pragma once

#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"

namespace mantissa::kernels::batch_norm_avx2 {

void channel_sums(ConstValue in, int64_t channels, int64_t begin_row, int64_t end_row,
                  const ChannelSums& sums) noexcept;
// Whether values are bytes, as fast loops want them.
inline bool are_bytes(const BatchNormGradient& args) {
  return args.in.bits <= 8 && (args.output.data == nullptr || args.output.bits <= 8);
}
// Whether the fast loops take it; else the plain ones do.
bool fits(const ScaleOffset& args) noexcept;
bool fits(const BatchNormGradient& args) noexcept;

WideStatistics scale_offset(const ScaleOffset& args, int64_t begin_row, int64_t end_row) noexcept;
void gradient_sums(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                   int64_t* sum_grad, int64_t* sum_grad_in) noexcept;
WideStatistics gradient(const BatchNormGradient& args, int64_t begin_row, int64_t end_row) noexcept;

}  // namespace mantissa::kernels::batch_norm_avx2
