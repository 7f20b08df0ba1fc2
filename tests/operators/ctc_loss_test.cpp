// CTC in integers and fp32: against a sum over all paths one by one, and against PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/losses/ctc.h"
#include "tests/operators/batch_losses.h"

namespace mantissa::testing {
namespace {

LossRows sequences(int64_t examples, int64_t positions, int64_t classes, int64_t most,
                   std::vector<int32_t> labels, std::vector<int32_t> lengths = {}) {
  LossRows rows = batch_rows(examples * positions, classes, positions);
  rows.most_labels = most;
  rows.labels = std::move(labels);
  rows.lengths = std::move(lengths);
  return rows;
}

std::vector<int32_t> spelled(const std::vector<int32_t>& path, int32_t blank) {
  std::vector<int32_t> labels;
  for (size_t t = 0; t < path.size(); ++t) {
    const bool repeats = t > 0 && path[t] == path[t - 1];
    if (path[t] != blank && !repeats) labels.push_back(path[t]);
  }
  return labels;
}

// Minus the logarithm of the sum over all paths: classes ^ positions of them.
TotalLoss ctc_definition(const LossRows& rows, int32_t blank) {
  return [&rows, blank](const std::vector<double>& logits) {
    double all = 0;
    const int64_t classes = rows.outputs;
    for (int64_t n = 0; n < rows.rows / rows.places; ++n) {
      const int64_t positions = rows.lengths.empty() ? rows.places : rows.lengths[n];
      std::vector<int32_t> labels;
      for (int64_t i = 0; i < rows.most_labels; ++i) {
        const int32_t label = rows.labels[n * rows.most_labels + i];
        if (label >= 0) labels.push_back(label);
      }
      std::vector<double> p;
      for (int64_t t = 0; t < positions; ++t) {
        const double* const z = logits.data() + (n * rows.places + t) * classes;
        double sum = 0;
        for (int64_t k = 0; k < classes; ++k) sum += std::exp(z[k]);
        for (int64_t k = 0; k < classes; ++k) p.push_back(std::exp(z[k]) / sum);
      }
      double found = 0;
      std::vector<int32_t> path(static_cast<size_t>(positions), 0);
      for (int64_t number = 0; number < std::llround(std::pow(classes, positions)); ++number) {
        double product = 1;
        for (int64_t t = 0, rest = number; t < positions; ++t, rest /= classes) {
          path[t] = static_cast<int32_t>(rest % classes);
          product *= p[t * classes + path[t]];
        }
        if (spelled(path, blank) == labels) found += product;
      }
      all -= std::log(found);
    }
    return all;
  };
}

TEST(CtcLoss, IsASumOverAllPaths) {
  for (const int32_t blank : {0, 2}) {
    const int32_t a = blank == 0 ? 1 : 0, b = blank == 2 ? 1 : 2;
    const LossRows rows = sequences(5, 5, 3, 3, {a,  b, a,  a, a, -1, -1, -1,
                                                 -1, b, -1, -1, b, a, b});
    expect_total_everywhere(ops::kCtcLoss, {{"blank", int64_t{blank}}}, rows,
                            ctc_definition(rows, blank));
    LossRows shorter = rows;
    shorter.lengths = {3, 3, 5, 1, 4};
    expect_total_everywhere(ops::kCtcLoss, {{"blank", int64_t{blank}}}, shorter,
                            ctc_definition(shorter, blank));
    const LossFound found = shorter.run(ops::kCtcLoss, {{"blank", int64_t{blank}}});
    EXPECT_EQ(found.totals.counted, 5);
    for (int64_t i = 3 * 3; i < 5 * 3; ++i) EXPECT_EQ(found.gradient[i], 0);  // behind the length
  }
}

TEST(CtcLoss, TakesRowsWithExponentsOfTheirOwn) {
  LossRows rows = sequences(2, 4, 3, 2, {1, 2, 2, 2});
  for (int64_t row = 0; row < 8; ++row) {
    rows.row_exponents.push_back(static_cast<int16_t>(-12 - row % 3));
  }
  expect_total(rows, rows.run(ops::kCtcLoss, {}), ctc_definition(rows, 0), 2e-4);
}

struct PyTorchCtc {
  int64_t blank, positions, classes;
  std::vector<int32_t> labels, lengths;
  double loss;
  std::vector<double> gradient;
};

// The operands of tests/make_losses.py.
TEST(CtcLoss, AgreesWithPyTorch) {
#include "tests/operators/pytorch_ctc.inc"
  for (const PyTorchCtc& each : ctc_losses) {
    LossRows rows{.outputs = each.classes, .places = each.positions};
    rows.labels = each.labels;
    rows.lengths = each.lengths;
    const auto count = std::ssize(each.gradient);
    rows.rows = count / each.classes;
    rows.most_labels = std::ssize(each.labels) * each.positions / rows.rows;
    for (int64_t i = 0; i < count; ++i) {
      rows.logits.push_back(static_cast<int32_t>(((37 * i * i + 101 * i) % 97 - 48) * 256));
    }
    for (const bool floats : {false, true}) {
      const LossFound found = rows.run(ops::kCtcLoss, {{"blank", each.blank}}, floats);
      EXPECT_NEAR(found.loss, each.loss, each.loss * (floats ? 1e-6 : 1e-5));
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_NEAR(found.gradient[i], each.gradient[i], floats ? 1e-6 : 1e-4) << i;
      }
    }
  }
}

// Over thousands of positions, the rounding of sums does not add up in the gradient.
TEST(CtcLoss, OfLongSequencesIsNearDoubles) {
  std::vector<int32_t> labels;
  for (int i = 0; i < 300; ++i) labels.push_back(1 + i * i % 7);
  const LossRows rows = sequences(1, 3000, 8, 300, labels);
  const LossFound integers = rows.run(ops::kCtcLoss, {});
  const LossFound floats = rows.run(ops::kCtcLoss, {}, true);
  EXPECT_NEAR(integers.loss, floats.loss, floats.loss * 1e-5);
  for (size_t i = 0; i < floats.gradient.size(); ++i) {
    EXPECT_NEAR(integers.gradient[i], floats.gradient[i], 2e-4) << i;
  }
}

TEST(CtcLoss, CountsSequencesThatTheBestPathSpells) {
  LossRows rows{.rows = 8, .outputs = 3, .places = 4, .most_labels = 2};
  const auto best = [&](std::vector<int32_t> path) {
    for (const int32_t k : path) {
      for (int32_t c = 0; c < 3; ++c) rows.logits.push_back(c == k ? 40960 : 0);
    }
  };
  best({1, 0, 1, 1});
  best({2, 2, 1, 0});
  rows.labels = {1, 1, 2, -1};
  for (const bool floats : {false, true}) {
    EXPECT_EQ(rows.run(ops::kCtcLoss, {}, floats).totals.correct, 1);
  }
  rows.labels = {1, 1, 2, 1};
  for (const bool floats : {false, true}) {
    const LossFound found = rows.run(ops::kCtcLoss, {}, floats);
    EXPECT_EQ(found.totals.correct, 2);
    EXPECT_NEAR(found.loss, 0, 0.01);
  }
}

// A path that is next to impossible still has a finite loss and shares that add up to one.
TEST(CtcLoss, OfExtremeLogitsIsFinite) {
  LossRows rows{.rows = 4, .outputs = 2, .places = 4, .most_labels = 1};
  rows.logits = {INT32_MIN, INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX, INT32_MAX, 0};
  rows.labels = {1};
  for (const int exponent : {-31, -8, 20}) {
    rows.exponent = exponent;
    const LossFound found = rows.run(ops::kCtcLoss, {});
    EXPECT_GE(found.totals.loss_q24, 0);
    for (int t = 0; t < 4; ++t) {
      EXPECT_NEAR(found.gradient[2 * t] + found.gradient[2 * t + 1], 0, 1e-4);
    }
  }
}

TEST(CtcLoss, ASequenceTooShortForItsLabelsDoesNotCount) {
  LossRows rows = sequences(2, 3, 3, 3, {1, 1, 2, 1, -1, -1});
  for (const bool floats : {false, true}) {
    const LossFound found = rows.run(ops::kCtcLoss, {}, floats);
    EXPECT_EQ(found.totals.rows, 2);
    EXPECT_EQ(found.totals.counted, 1);
    EXPECT_TRUE(std::isfinite(found.loss));
    for (int i = 0; i < 9; ++i) EXPECT_EQ(found.gradient[i], 0);
  }
}

TEST(CtcLoss, RefusesWhatDoesNotFit) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(refusal_of(ops::kCtcLoss, {}, {{20, 5}, {8}}), "");
  EXPECT_EQ(refusal_of(ops::kCtcLoss, {}, {{20, 5}, {8}, {}}), "");
  has(refusal_of(ops::kCtcLoss, {}, {{5}, {8}}), "wants logits [positions, classes]");
  has(refusal_of(ops::kCtcLoss, {}, {{20, 5}, {8}, {8}}), "perhaps a length");
  has(refusal_of(ops::kCtcLoss, {}, {{20, 5}, {21}}), "at most as many labels as positions, 20");
  has(refusal_of(ops::kCtcLoss, {}, {{20, 1}, {8}}), "2 to");
  has(refusal_of(ops::kCtcLoss, {{"blank", int64_t{5}}}, {{20, 5}, {8}}), "from 0 to 4");
}

}  // namespace
}  // namespace mantissa::testing
