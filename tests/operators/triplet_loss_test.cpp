// Triplets in integers and fp32, against their definition in double. BatchLosses.AgreeWithPyTorch
// compares them with PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/operators/batch_losses.h"

namespace mantissa::testing {
namespace {

double squared_distance(const std::vector<double>& in, int64_t channels, int64_t i, int64_t j) {
  double own = 0, other = 0, product = 0;
  for (int64_t k = 0; k < channels; ++k) {
    const double a = in[i * channels + k], b = in[j * channels + k];
    own += a * a, other += b * b, product += a * b;
  }
  return own == 0 || other == 0 ? 2 : 2 - 2 * product / std::sqrt(own * other);
}

TotalLoss triplet_definition(const LossRows& rows, double margin, bool takes_all) {
  return [&rows, margin, takes_all](const std::vector<double>& in) {
    double all = 0;
    for (int64_t a = 0; a < rows.rows; ++a) {
      double sum = 0, largest = 0, triplets = 0;
      for (int64_t p = 0; p < rows.rows; ++p) {
        for (int64_t n = 0; n < rows.rows; ++n) {
          const bool is_one = p != a && rows.labels[a] >= 0 && rows.labels[p] == rows.labels[a] &&
                              rows.labels[n] >= 0 && rows.labels[n] != rows.labels[a];
          if (!is_one) continue;
          const double lost =
              std::max(0.0, squared_distance(in, rows.outputs, a, p) -
                                squared_distance(in, rows.outputs, a, n) + margin);
          sum += lost;
          largest = std::max(largest, lost);
          triplets += 1;
        }
      }
      if (triplets > 0) all += takes_all ? sum / triplets : largest;
    }
    return all;
  };
}

TEST(TripletLoss, IsItsDefinition) {
  for (const int64_t channels : {2, 7, 16}) {
    const LossRows rows = some_vectors(21, channels);
    for (const double margin : {0.0, 0.2, 4.0}) {
      for (const char* mining : {"hard", "all"}) {
        SCOPED_TRACE(::testing::Message() << channels << " " << margin << " " << mining);
        expect_total_everywhere(
            ops::kTripletLoss, {{"margin", margin}, {"mining", std::string(mining)}}, rows,
            triplet_definition(rows, margin, std::string(mining) == "all"));
      }
    }
  }
}

TEST(TripletLoss, TakesRowsWithExponentsOfTheirOwn) {
  const LossRows rows = some_vectors(12, 4);
  LossRows own_rows = rows;
  for (int64_t row = 0; row < 12; ++row) {
    own_rows.row_exponents.push_back(static_cast<int16_t>(-12 - row % 3));
  }
  for (const char* mining : {"hard", "all"}) {
    SCOPED_TRACE(mining);
    const Attributes attributes{{"mining", std::string(mining)}};
    const LossFound own = own_rows.run(ops::kTripletLoss, attributes);
    EXPECT_EQ(rows.run(ops::kTripletLoss, attributes).totals.loss_q24, own.totals.loss_q24);
    expect_total(own_rows, own, triplet_definition(own_rows, 0.2, std::string(mining) == "all"),
                 2e-4);
  }
}

// One label, or labels that no two examples share, have no triplets.
TEST(TripletLoss, OfNoTriplets) {
  LossRows rows = batch_rows(4, 3);
  for (const std::vector<int32_t>& labels :
       {std::vector<int32_t>{5, 5, 5, 5}, {0, 1, 2, 3}, {-1, -1, -1, -1}, {7, 7, -1, -1}}) {
    rows.labels = labels;
    for (const char* mining : {"hard", "all"}) {
      for (const bool floats : {false, true}) {
        const LossFound found =
            rows.run(ops::kTripletLoss, {{"mining", std::string(mining)}}, floats);
        EXPECT_EQ(found.totals.loss_q24, 0);
        for (const double each : found.gradient) EXPECT_EQ(each, 0);
      }
    }
  }
}

// Vectors that have met the margin are left alone; a vector of zeros has no direction.
TEST(TripletLoss, OfVectorsThatAreFarEnough) {
  LossRows rows{.rows = 5, .outputs = 2};
  rows.logits = {100, 1, 200, 2, -300, 4, -500, 9, 0, 0};
  rows.labels = {0, 0, 1, 1, 2};
  for (const char* mining : {"hard", "all"}) {
    const LossFound found = rows.run(ops::kTripletLoss, {{"mining", std::string(mining)}});
    EXPECT_EQ(found.totals.loss_q24, 0);
    EXPECT_EQ(found.totals.correct, 4);
    for (const double each : found.gradient) EXPECT_EQ(each, 0);
  }
}

TEST(TripletLoss, OfExtremes) {
  LossRows rows{.rows = 4, .outputs = 2};
  rows.logits = {0, 0, INT32_MAX, 1, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MIN};
  rows.labels = {1, 1, 1, 0};
  for (const int exponent : {-31, 0, 40}) {
    rows.exponent = exponent;
    const LossFound found = rows.run(ops::kTripletLoss, {{"margin", 4.0}});
    EXPECT_GT(found.totals.loss_q24, 0);
    for (const double each : found.gradient) EXPECT_TRUE(std::isfinite(each));
  }
}

TEST(TripletLoss, RefusesWhatDoesNotFit) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(refusal_of(ops::kTripletLoss, {}, {{16}, {}}), "");
  has(refusal_of(ops::kTripletLoss, {}, {{16}, {16}}), "a label for each example");
  has(refusal_of(ops::kTripletLoss, {{"margin", 5.0}}, {{16}, {}}), "margin");
  has(refusal_of(ops::kTripletLoss, {{"mining", std::string("soft")}}, {{16}, {}}), "mining");
}

}  // namespace
}  // namespace mantissa::testing
