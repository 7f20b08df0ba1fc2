// Batch norm on linear values of up to 16 bits: exact sums, then per-channel integer multipliers
// and offsets.
//
// Values are [rows, channels], rows = N*H*W. Functions work on the rows [begin, end); callers add
// the sums, which are exact. Output may not overlap input. Source: METHODS sections 0.3 and 4.
#pragma once

#include "reference/types.h"

// Per-channel sums; arrays of [channels]. sum and sum_squares are added to, extremes are combined.
typedef struct RefChannelSums {
  int64_t* sum REF_CXX(= nullptr);
  int64_t* sum_squares REF_CXX(= nullptr);
  int32_t* minimum REF_CXX(= nullptr);
  int32_t* maximum REF_CXX(= nullptr);
} RefChannelSums;

// out = narrow(relu?(in * multiplier[c] + offset[c])); |multiplier| < 2^31, or 2^29 if `in` has
// more than 8 bits, |offset| < 2^45. shift < 0 (only under a fixed exponent) shifts left and
// saturates. Without out.data: only the maximum; with it only the count of saturated results.
//
// If negatives are coarse (negative_shift >= 0), negative results are rounded to negative_shift
// fewer bits, half up: their unit is 2^negative_shift times the unit of the rest. Saturated
// negatives are not counted, and the maximum is of the rest, as with ReLU; shift >= 0.
typedef struct RefScaleOffset {
  RefConstSpan in;
  int64_t channels REF_CXX(= 1);
  const int32_t* multiplier REF_CXX(= nullptr);
  const int64_t* offset REF_CXX(= nullptr);
  bool relu REF_CXX(= false);
  int shift REF_CXX(= 0);
  RefSpan out;
  int negative_shift REF_CXX(= -1);  // up to 8, not with ReLU
} RefScaleOffset;

// dy = (no output.data, or output > 0) ? grad_out : 0.
// sums: sum_grad[c] += sum dy, sum_grad_in[c] += sum dy * in.
// wide = dy * grad_multiplier[c] + in * in_multiplier[c] * 2^in_shift + offset[c]. Negative values
// of `in` count 2^negative_shift times (not in sums: only with a mask of `in` itself).
// grad_in = saturate(rne(wide >> shift), +-(2^(bits-1) - 1)), shift >= 0; |multipliers| <= 2^31,
// |offset| <= 2^60. If grad_out has 32 bits, the first two terms are at most 2^59, else in_shift is
// 0. grad_in has the width of grad_out, or more bits, up to 32.
// Statistics: the maximum, and (not without grad_in.data) how many saturated.
typedef struct RefBatchNormGradient {
  RefConstSpan grad_out;
  RefConstSpan in;
  RefConstSpan output;
  int64_t channels REF_CXX(= 1);
  const int32_t* grad_multiplier REF_CXX(= nullptr);
  const int32_t* in_multiplier REF_CXX(= nullptr);
  int in_shift REF_CXX(= 0);
  const int64_t* offset REF_CXX(= nullptr);
  int shift REF_CXX(= 0);
  RefSpan grad_in REF_CXX(= {});
  uint64_t seen REF_CXX(= 0);       // a maximum that need not be reported, as others have found it
  int negative_shift REF_CXX(= 0);  // up to 8; above 0 only if `output` is `in`
} RefBatchNormGradient;

REF_BEGIN

void ref_channel_sums(RefConstSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                      const RefChannelSums* sums) REF_NOEXCEPT;
RefStatistics ref_scale_offset(const RefScaleOffset*, int64_t begin_row,
                               int64_t end_row) REF_NOEXCEPT;
void ref_batch_norm_gradient_sums(const RefBatchNormGradient*, int64_t begin_row, int64_t end_row,
                                  int64_t* sum_grad, int64_t* sum_grad_in) REF_NOEXCEPT;
RefStatistics ref_batch_norm_gradient(const RefBatchNormGradient*, int64_t begin_row,
                                      int64_t end_row) REF_NOEXCEPT;

REF_END
