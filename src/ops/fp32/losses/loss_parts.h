// Parts of losses in fp32.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/op.h"
#include "kernels/common/row_weights.h"

namespace mantissa::ops::fp32 {

inline constexpr double kLn2 = 0.69314718055994530942;

// The weights at an input, or none; of labels, those below 0 do not count.
inline kernels::RowWeights row_weights(const OpContext& c, size_t input = 2) {
  const bool has_labels = c.inputs[1].type == DataType::kInt32;
  return {c.inputs.size() > input ? c.inputs[input].as<int16_t>() : nullptr,
          has_labels ? c.inputs[1].as<int32_t>() : nullptr};
}

inline double weight_of(const kernels::RowWeights& weights, int64_t n) {
  return std::ldexp(static_cast<double>(weights.factor(n)), -weights.bits());
}

// Adds a row's loss, unless it is not finite: then the step fails.
inline bool add_loss(double loss_q24, LossTotals& totals, bool& overflow) {
  if (!(std::abs(loss_q24) < 0x1p50)) {
    overflow = true;
    return false;
  }
  totals.loss_q24 += std::llrint(loss_q24);
  return true;
}

// e^z, as part of the sum over a row.
struct RowSoftmax {
  double largest = 0, sum = 0;
};

// Of logits divided by a temperature.
inline RowSoftmax row_softmax(const float* logits, int64_t classes, double temperature) {
  RowSoftmax found{.largest = logits[0]};
  for (int64_t k = 1; k < classes; ++k) found.largest = std::max<double>(found.largest, logits[k]);
  for (int64_t k = 0; k < classes; ++k) {
    found.sum += std::exp((logits[k] - found.largest) / temperature);
  }
  return found;
}

}  // namespace mantissa::ops::fp32
