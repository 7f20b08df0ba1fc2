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

namespace mantissa::kernels {

// Per-channel sums; arrays of [channels]. sum and sum_squares are added to, extremes are combined.
struct ChannelSums {
  int64_t* sum = nullptr;
  int64_t* sum_squares = nullptr;
  int32_t* minimum = nullptr;
  int32_t* maximum = nullptr;
};

// out = narrow(relu?(in * multiplier[c] + offset[c])); |multiplier| < 2^31, or 2^29 if `in` has
// more than 8 bits, |offset| < 2^45. shift < 0 (only under a fixed exponent) shifts left and
// saturates. Without out.data: only the maximum; with it only the count of saturated results.
//
// If negatives are coarse (negative_shift >= 0), negative results are rounded to negative_shift
// fewer bits, half up: their unit is 2^negative_shift times the unit of the rest. Saturated
// negatives are not counted, and the maximum is of the rest, as with ReLU; shift >= 0.
constexpr int kMostNegativeShift = 8;
struct ScaleOffset {
  ConstMantissaSpan in;
  int64_t channels = 1;
  const int32_t* multiplier = nullptr;
  const int64_t* offset = nullptr;
  bool relu = false;
  int shift = 0;
  MantissaSpan out;
  int negative_shift = -1;  // up to kMostNegativeShift, not with ReLU
};

// dy = (no output.data, or output > 0) ? grad_out : 0.
// sums: sum_grad[c] += sum dy, sum_grad_in[c] += sum dy * in.
// wide = dy * grad_multiplier[c] + in * in_multiplier[c] * 2^in_shift + offset[c]. Negative values
// of `in` count 2^negative_shift times (not in sums: only with a mask of `in` itself).
// grad_in = saturate(rne(wide >> shift), +-(2^(bits-1) - 1)), shift >= 0; |multipliers| <= 2^31,
// |offset| <= 2^60. If grad_out has 32 bits, the first two terms are at most 2^59, else in_shift is
// 0. grad_in has the width of grad_out, or more bits, up to 32.
// Statistics: the maximum, and (not without grad_in.data) how many saturated.
struct BatchNormGradient {
  ConstMantissaSpan grad_out;
  ConstMantissaSpan in;
  ConstMantissaSpan output;
  int64_t channels = 1;
  const int32_t* grad_multiplier = nullptr;
  const int32_t* in_multiplier = nullptr;
  int in_shift = 0;
  const int64_t* offset = nullptr;
  int shift = 0;
  MantissaSpan grad_in = {};
  uint64_t seen = 0;       // a maximum that need not be reported, as others have found it
  int negative_shift = 0;  // up to kMostNegativeShift; above 0 only if `output` is `in`
};

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
