// Mean squared error of wide results against one-hot or given targets, in integers.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/row_weights.h"
#include "kernels/common/statistics.h"

namespace mantissa::kernels {

constexpr int64_t kMaximumOutputs = 4096;  // or classes

using SquaredError = RefSquaredError;

struct SquaredErrorKernels {
  const char* name;
  Features needs;
  // loss_q24: of each row the mean of d^2 over the classes, in Q24 to nearest even, times the
  // weight. Rows whose largest logit is the label's are counted as correct; with targets none.
  LossSums (*loss)(const SquaredError&, int64_t begin_row, int64_t end_row) noexcept;
  // grad = saturate(rne(wide >> shift), +-(2^(bits-1) - 1)) with wide = 2 d / classes in Q30, to
  // nearest even, times the weight: the gradient of the *sum* of the rows' losses; shift >= 0.
  WideStatistics (*gradient)(const SquaredError&, int shift, MantissaSpan grad, int64_t begin_row,
                             int64_t end_row) noexcept;
};

// Exponent of the wide gradient without weights; with them 10 less.
constexpr int kSquaredErrorGradientExponent = -30;

extern const SquaredErrorKernels kSquaredErrorReference;

}  // namespace mantissa::kernels
