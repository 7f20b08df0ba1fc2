// Batch norm on linear values of up to 16 bits: exact sums, then per-channel integer multipliers
// and offsets.
//
// Values are [rows, channels], rows = N*H*W. Functions work on the rows [begin, end) on the calling
// thread; callers split rows and add the sums, which are exact. Output may not overlap input: parts
// of the input may be read again, and parts of the output written again. Source: METHODS sections
// 0.3 and 4.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "reference/layers/batch_norm.h"

namespace mantissa::kernels {

// What a call takes (reference/layers/batch_norm.h).
using ChannelSums = RefChannelSums;
using ScaleOffset = RefScaleOffset;
using BatchNormGradient = RefBatchNormGradient;

constexpr int kMostNegativeShift = 8;

struct BatchNormKernels {
  const char* name;
  Features needs;
  void (*channel_sums)(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                       const ChannelSums& sums) noexcept;
  WideStatistics (*scale_offset)(const ScaleOffset&, int64_t begin_row, int64_t end_row) noexcept;
  void (*gradient_sums)(const BatchNormGradient&, int64_t begin_row, int64_t end_row,
                        int64_t* sum_grad, int64_t* sum_grad_in) noexcept;
  WideStatistics (*gradient)(const BatchNormGradient&, int64_t begin_row, int64_t end_row) noexcept;
};

extern const BatchNormKernels kBatchNormReference;
#if defined(__x86_64__)
extern const BatchNormKernels kBatchNormAvx2;
extern const BatchNormKernels kBatchNormAvx512Vnni;
#endif

}  // namespace mantissa::kernels
