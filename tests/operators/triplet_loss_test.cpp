// Triplets in integers and fp32, against their definition in double. BatchLosses.AgreeWithPyTorch
// compares them with PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

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

// The losses of an anchor's triplets with an example p of its label, by the other label's distance.
std::vector<std::pair<double, double>> losses_with(const LossRows& rows,
                                                   const std::vector<double>& in, int64_t a,
                                                   int64_t p, double margin) {
  std::vector<std::pair<double, double>> losses;
  const double own = squared_distance(in, rows.outputs, a, p);
  for (int64_t n = 0; n < rows.rows; ++n) {
    if (rows.labels[n] < 0 || rows.labels[n] == rows.labels[a]) continue;
    const double other = squared_distance(in, rows.outputs, a, n);
    losses.emplace_back(other - own, std::max(0.0, own - other + margin));
  }
  std::ranges::sort(losses);
  return losses;
}

// The loss of the nearest example that is farther than p, or else of the farthest.
double semi_hard_of(const std::vector<std::pair<double, double>>& losses) {
  const auto beyond = std::ranges::find_if(losses, [](const auto& one) { return one.first > 0; });
  return beyond == losses.end() ? losses.back().second : beyond->second;
}

TotalLoss triplet_definition(const LossRows& rows, double margin, const std::string& mining) {
  return [&rows, margin, mining](const std::vector<double>& in) {
    double all = 0;
    for (int64_t a = 0; a < rows.rows; ++a) {
      double sum = 0, largest = 0, semi_hard = 0, triplets = 0, pairs = 0;
      for (int64_t p = 0; p < rows.rows; ++p) {
        const bool is_one = p != a && rows.labels[a] >= 0 && rows.labels[p] == rows.labels[a];
        if (!is_one) continue;
        const auto losses = losses_with(rows, in, a, p, margin);
        if (losses.empty()) continue;
        for (const auto& [_, lost] : losses) {
          sum += lost;
          largest = std::max(largest, lost);
          triplets += 1;
        }
        semi_hard += semi_hard_of(losses);
        pairs += 1;
      }
      if (triplets == 0) continue;
      all += mining == "all" ? sum / triplets : mining == "hard" ? largest : semi_hard / pairs;
    }
    return all;
  };
}

TEST(TripletLoss, IsItsDefinition) {
  for (const int64_t channels : {2, 7, 16}) {
    const LossRows rows = some_vectors(21, channels);
    for (const double margin : {0.0, 0.2, 4.0}) {
      for (const char* mining : {"hard", "all", "semi-hard"}) {
        SCOPED_TRACE(::testing::Message() << channels << " " << margin << " " << mining);
        expect_total_everywhere(
            ops::kTripletLoss, {{"margin", margin}, {"mining", std::string(mining)}}, rows,
            triplet_definition(rows, margin, mining));
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
  for (const char* mining : {"hard", "all", "semi-hard"}) {
    SCOPED_TRACE(mining);
    const Attributes attributes{{"mining", std::string(mining)}};
    const LossFound own = own_rows.run(ops::kTripletLoss, attributes);
    EXPECT_EQ(rows.run(ops::kTripletLoss, attributes).totals.loss_q24, own.totals.loss_q24);
    expect_total(own_rows, own, triplet_definition(own_rows, 0.2, mining), 2e-4);
  }
}

// One label, or labels that no two examples share, have no triplets.
TEST(TripletLoss, OfNoTriplets) {
  LossRows rows = batch_rows(4, 3);
  for (const std::vector<int32_t>& labels :
       {std::vector<int32_t>{5, 5, 5, 5}, {0, 1, 2, 3}, {-1, -1, -1, -1}, {7, 7, -1, -1}}) {
    rows.labels = labels;
    for (const char* mining : {"hard", "all", "semi-hard"}) {
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
  for (const char* mining : {"hard", "all", "semi-hard"}) {
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
