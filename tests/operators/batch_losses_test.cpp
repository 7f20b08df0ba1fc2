// Losses that look at more than one row: Dice's over the places of an example, and contrast over a
// batch. In integers and fp32, against their definitions in double and against PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/operators/batch_losses.h"

namespace mantissa::testing {
namespace {

std::vector<double> softmax_of(const std::vector<double>& logits, int64_t row, int64_t classes) {
  std::vector<double> p;
  double sum = 0;
  const double largest =
      *std::max_element(logits.begin() + row * classes, logits.begin() + (row + 1) * classes);
  for (int64_t k = 0; k < classes; ++k) p.push_back(std::exp(logits[row * classes + k] - largest));
  for (const double each : p) sum += each;
  for (double& each : p) each /= sum;
  return p;
}

// Of all examples, each times the weights of its places.
TotalLoss dice_definition(const LossRows& rows, double smooth, double cross_entropy) {
  return [&rows, smooth, cross_entropy](const std::vector<double>& logits) {
    const int64_t classes = rows.outputs;
    double all = 0;
    for (int64_t n = 0; n < rows.rows / rows.places; ++n) {
      std::vector<double> both(classes, 0), sums(classes, 0);
      double counted = 0, entropy = 0;
      for (int64_t row = n * rows.places; row < (n + 1) * rows.places; ++row) {
        const int32_t label = rows.labels[row];
        if (label < 0) continue;
        const double weight = rows.weight(row);
        const std::vector<double> p = softmax_of(logits, row, classes);
        for (int64_t k = 0; k < classes; ++k) {
          sums[k] += weight * (p[k] + (k == label ? 1 : 0));
          if (k == label) both[k] += weight * p[k];
        }
        counted += weight;
        entropy -= weight * std::log(p[label]);
      }
      double lost = 1;
      for (int64_t k = 0; k < classes; ++k) {
        lost -= (2 * both[k] + smooth) / (sums[k] + smooth) / static_cast<double>(classes);
      }
      all += counted * lost + cross_entropy * entropy;
    }
    return all;
  };
}

TEST(BatchLosses, DiceIsItsDefinition) {
  for (const int64_t classes : {2, 3, 5}) {
    LossRows rows = batch_rows(36, classes, 12);
    for (int64_t row = 0; row < 36; ++row) {
      // The last class is in no example; of some places the class is not known.
      rows.labels.push_back(row % 11 == 7 ? -1 : static_cast<int32_t>(row * 3 / 2 % (classes - 1)));
    }
    for (const double smooth : {0.25, 1.0, 100.0}) {
      for (const double cross_entropy : {0.0, 1.0, 0.5}) {
        SCOPED_TRACE(::testing::Message() << classes << " " << smooth << " " << cross_entropy);
        const Attributes attributes = {{"smooth", smooth}, {"cross_entropy", cross_entropy}};
        expect_total_everywhere(ops::kDiceLoss, attributes, rows,
                                dice_definition(rows, smooth, cross_entropy));
        LossRows weighed = rows;
        for (int64_t row = 0; row < 36; ++row) {
          weighed.weights.push_back(static_cast<int16_t>(row % 4 == 1 ? 0 : row % 5 * 700));
        }
        expect_total_everywhere(ops::kDiceLoss, attributes, weighed,
                                dice_definition(weighed, smooth, cross_entropy));
      }
    }
  }
}

// An example without a place that counts, and one that is right everywhere.
TEST(BatchLosses, DiceOfNothingAndOfEverythingRight) {
  LossRows rows{.rows = 4, .outputs = 2, .places = 2};
  rows.logits = {1000, -1000, 5, 6, 40960, -40960, -40960, 40960};
  rows.labels = {-1, -1, 0, 1};
  for (const bool floats : {false, true}) {
    const LossFound found = rows.run(ops::kDiceLoss, {}, floats);
    EXPECT_NEAR(found.loss, 0, 1e-6);
    EXPECT_EQ(found.totals.counted, 2);
    EXPECT_EQ(found.totals.correct, 2);
    for (const double each : found.gradient) EXPECT_NEAR(each, 0, 1e-6);
  }
}

TEST(BatchLosses, ExtremeLogitsHaveFiniteDice) {
  LossRows rows{.rows = 4, .outputs = 2, .places = 4};
  rows.logits = {INT32_MIN, INT32_MAX, INT32_MAX, INT32_MIN, 0, 0, INT32_MIN, INT32_MIN};
  rows.labels = {0, 0, 1, 1};
  for (const int exponent : {-31, -8, 20}) {
    rows.exponent = exponent;
    const LossFound found =
        rows.run(ops::kDiceLoss, {{"smooth", 0x1p-20}, {"cross_entropy", 100.0}});
    EXPECT_GT(found.totals.loss_q24, 0);
    for (const double each : found.gradient) EXPECT_LT(std::abs(each), 1e4);
  }
}

TotalLoss contrastive_definition(const LossRows& rows, double temperature) {
  return [&rows, temperature](const std::vector<double>& in) {
    const int64_t n = rows.rows, channels = rows.outputs;
    std::vector<double> u = in;
    for (int64_t i = 0; i < n; ++i) {
      double squares = 0;
      for (int64_t k = 0; k < channels; ++k) squares += in[i * channels + k] * in[i * channels + k];
      for (int64_t k = 0; k < channels; ++k) {
        u[i * channels + k] = squares == 0 ? 0 : in[i * channels + k] / std::sqrt(squares);
      }
    }
    const auto product = [&](int64_t i, int64_t j) {
      double sum = 0;
      for (int64_t k = 0; k < channels; ++k) sum += u[i * channels + k] * u[j * channels + k];
      return sum / temperature;
    };
    double all = 0;
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0, lost = 0, own = 0;
      for (int64_t j = 0; j < n; ++j) {
        if (j == i || rows.labels[i] < 0 || rows.labels[j] < 0) continue;
        sum += std::exp(product(i, j));
        if (rows.labels[i] != rows.labels[j]) continue;
        lost -= product(i, j);
        own += 1;
      }
      if (own > 0) all += lost / own + std::log(sum);
    }
    return all;
  };
}

TEST(BatchLosses, ContrastIsItsDefinition) {
  for (const int64_t channels : {2, 7, 16}) {
    const LossRows rows = some_vectors(21, channels);
    for (const double temperature : {0.1, 0.5, 4.0}) {
      SCOPED_TRACE(::testing::Message() << channels << " " << temperature);
      expect_total_everywhere(ops::kContrastiveLoss, {{"temperature", temperature}}, rows,
                              contrastive_definition(rows, temperature));
    }
  }
}

// Exponents of rows do not change the loss, since vectors are brought to length 1.
TEST(BatchLosses, ContrastTakesRowsWithExponentsOfTheirOwn) {
  LossRows rows = some_vectors(12, 4);
  const LossFound one = rows.run(ops::kContrastiveLoss, {});
  for (int64_t row = 0; row < 12; ++row) {
    rows.row_exponents.push_back(static_cast<int16_t>(-12 - row % 3));
  }
  const LossFound own = rows.run(ops::kContrastiveLoss, {});
  EXPECT_EQ(one.totals.loss_q24, own.totals.loss_q24);
  expect_total(rows, own, contrastive_definition(rows, 0.1), 2e-4);
}

TEST(BatchLosses, ContrastOfZerosOfEqualOnesAndOfExtremes) {
  LossRows rows{.rows = 4, .outputs = 2};
  rows.logits = {0, 0, 0, 0, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX};
  rows.labels = {1, 1, 1, 0};
  for (const int exponent : {-31, 0, 40}) {
    rows.exponent = exponent;
    const LossFound found = rows.run(ops::kContrastiveLoss, {{"temperature", 0.01}});
    EXPECT_GT(found.totals.loss_q24, 0);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(found.gradient[i], 0);  // no direction is better
  }
  rows.labels = {-1, -1, -1, -1};
  EXPECT_EQ(rows.run(ops::kContrastiveLoss, {}).totals.loss_q24, 0);
}

TEST(BatchLosses, RefuseWhatDoesNotFit) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(refusal_of(ops::kDiceLoss, {}, {{9, 3}, {9}}), "");
  EXPECT_EQ(refusal_of(ops::kDiceLoss, {}, {{4, 9, 3}, {4, 9}, {4, 9}}), "");
  has(refusal_of(ops::kDiceLoss, {}, {{3}, {}}), "is softmax_cross_entropy");
  has(refusal_of(ops::kDiceLoss, {}, {{9, 1}, {9}}), "wants 2 to");
  has(refusal_of(ops::kDiceLoss, {}, {{4096, 2048, 3}, {4096, 2048}}), "places");
  has(refusal_of(ops::kDiceLoss, {{"smooth", 0.0}}, {{9, 3}, {9}}), "smooth");
  has(refusal_of(ops::kDiceLoss, {{"cross_entropy", 101.0}}, {{9, 3}, {9}}), "cross_entropy");
  EXPECT_EQ(refusal_of(ops::kContrastiveLoss, {}, {{16}, {}}), "");
  has(refusal_of(ops::kContrastiveLoss, {}, {{16}, {16}}), "a label for each example");
  has(refusal_of(ops::kContrastiveLoss, {}, {{1}, {}}), "2 to 4096 channels");
  has(refusal_of(ops::kContrastiveLoss, {{"temperature", 0.001}}, {{16}, {}}), "temperature");
}

struct PyTorchBatchLoss {
  double a, b, loss;
  std::vector<double> gradient;
};

// The operands of tests/make_losses.py.
TEST(BatchLosses, AgreeWithPyTorch) {
#include "tests/operators/pytorch_batch_losses.inc"
  const std::vector<double> logits = {1.5, -2.25, 0.5, -0.75, 3, 4.125, 0, -6.5, 2, 0.25, 1, -1};
  LossRows rows{.rows = 4, .outputs = 3};
  for (const double logit : logits) rows.logits.push_back(std::lrint(logit * 4096));
  const auto expect = [&](const Op& op, const Attributes& attributes,
                          const PyTorchBatchLoss& each) {
    for (const bool floats : {false, true}) {
      const LossFound found = rows.run(op, attributes, floats);
      const double tolerance = floats ? 1e-5 : 1e-3;
      EXPECT_NEAR(found.loss, each.loss, tolerance * std::max(1.0, each.loss)) << op.name;
      for (size_t i = 0; i < logits.size(); ++i) {
        EXPECT_NEAR(found.gradient[i], each.gradient[i], tolerance) << op.name << " " << i;
      }
    }
  };
  rows.labels = {0, 1, 1, 0};
  for (const PyTorchBatchLoss& each : contrastive_losses) {
    expect(ops::kContrastiveLoss, {{"temperature", each.a}}, each);
  }
  for (const PyTorchBatchLoss& each : triplet_losses) {
    const std::string mining = each.b == 0 ? "hard" : each.b == 1 ? "all" : "semi-hard";
    expect(ops::kTripletLoss, {{"margin", each.a}, {"mining", mining}}, each);
  }
  rows.places = 2;
  rows.labels = {0, 2, 2, 1};
  for (const PyTorchBatchLoss& each : dice_losses) {
    expect(ops::kDiceLoss, {{"smooth", each.a}, {"cross_entropy", each.b}}, each);
  }
}

}  // namespace
}  // namespace mantissa::testing
