// Tests of losses that look at more than one row: against a definition of the whole batch.
#pragma once

#include <string>
#include <vector>

#include "tests/operators/loss_rows.h"

namespace mantissa::testing {

// Logits between -8 and 8 with a zero among them.
inline LossRows batch_rows(int64_t rows, int64_t outputs, int64_t places = 0) {
  LossRows made{.rows = rows, .outputs = outputs, .places = places};
  uint64_t state = 11;
  for (int64_t i = 0; i < rows * outputs; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    made.logits.push_back(i == 4 ? 0 : static_cast<int32_t>(state >> 48) - 32768);
  }
  return made;
}

using TotalLoss = std::function<double(const std::vector<double>& logits)>;

// Loss and gradient against the definition of a whole batch and its central differences.
inline void expect_total(const LossRows& rows, const LossFound& found, const TotalLoss& definition,
                         double tolerance) {
  std::vector<double> logits;
  for (int64_t i = 0; i < rows.rows * rows.outputs; ++i) logits.push_back(rows.logit(i));
  double largest = 0;
  for (const double each : found.gradient) largest = std::max(largest, std::abs(each));
  for (size_t i = 0; i < logits.size(); ++i) {
    constexpr double kStep = 1e-5;
    std::vector<double> above = logits, below = logits;
    above[i] += kStep;
    below[i] -= kStep;
    EXPECT_NEAR(found.gradient[i], (definition(above) - definition(below)) / (2 * kStep),
                tolerance + std::ldexp(largest, -15))
        << i;
  }
  const double loss = definition(logits);
  EXPECT_NEAR(found.loss, loss, tolerance * (1 + std::abs(loss)));
}

inline void expect_same_bits(const LossFound& a, const LossFound& b) {
  EXPECT_EQ(a.totals.loss_q24, b.totals.loss_q24);
  EXPECT_EQ(a.totals.correct, b.totals.correct);
  EXPECT_EQ(a.totals.weight_q10, b.totals.weight_q10);
  EXPECT_EQ(a.gradient, b.gradient);
}

inline void expect_total_everywhere(const Op& op, const Attributes& attributes,
                                    const LossRows& rows, const TotalLoss& definition) {
  const LossFound integers = rows.run(op, attributes);
  expect_total(rows, integers, definition, 2e-4);
  expect_same_bits(integers, rows.run(op, attributes, false, 3));
  expect_same_bits(integers, rows.run(op, attributes, false, 1, Isa::kScalar));
  const LossFound floats = rows.run(op, attributes, true);
  expect_total(rows, floats, definition, 1e-5);
  EXPECT_EQ(floats.totals.correct, integers.totals.correct);
  EXPECT_EQ(floats.totals.weight_q10, integers.totals.weight_q10);
}

// Labels beyond the number of channels, a label that one example has alone, and none.
inline LossRows some_vectors(int64_t n, int64_t channels) {
  LossRows rows = batch_rows(n, channels);
  for (int64_t i = 0; i < n; ++i) {
    rows.labels.push_back(i == 2 ? 77 : i % 9 == 5 ? -1 : static_cast<int32_t>(i * i % 3 * 100));
  }
  return rows;
}

inline std::string refusal_of(const Op& op, const Attributes& attributes,
                              std::vector<Shape> inputs) {
  const auto completed = complete(attributes, op.attributes);
  if (!completed.ok()) return completed.error().message;
  const auto outputs = op.infer_outputs(*completed, inputs);
  return outputs.ok() ? "" : outputs.error().message;
}

}  // namespace mantissa::testing
