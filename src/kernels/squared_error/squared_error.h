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

// Logits are [rows, classes] mantissas with one exponent; labels are < classes <= 4096. A logit z
// is taken in Q24, to nearest even and clipped at +-2^12. Its error is d = z - [class = label]. If
// targets t are given, [rows, classes] with one exponent and converted as logits are, it is d = z -
// t. Rows with a label below 0 count nowhere, others by their weights (row_weights.h).
struct SquaredError {
  const int32_t* logits = nullptr;
  const int32_t* labels = nullptr;
  int exponent = 0;
  int64_t classes = 1;
  const int16_t* targets = nullptr;  // in place of labels
  int target_exponent = 0;
  const int16_t* weights = nullptr;  // [rows] in 2^-10; null: each row counts 1
  WideCounts* counts = nullptr;      // of the wide gradient, if it is counted

  RowWeights row_weights() const { return {weights, targets == nullptr ? labels : nullptr}; }
};

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
