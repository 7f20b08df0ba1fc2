// The table of sensitivities: sorted, with shares that add up, and with the fewest layers that win
// back that much.
#include "quantise/sensitivity.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace mantissa::quantise {
namespace {

TEST(Sensitivity, SaysWhichLayersToKeep) {
  const std::vector<LayerLoss> layers = {{"stem", 1.5, 100, 4}, {"a", 1.1, 1000, 4},
                                         {"b", 1.3, 2001, 3},   {"c", 0.9, 50, 4},
                                         {"d", 1.1, 10, 4},     {"head", 1.2, 640, 8}};
  const auto table = sensitivity_table(1, layers, 8);
  ASSERT_TRUE(table.ok());
  std::vector<int64_t> order;
  for (const auto& row : table->rows) order.push_back(row.layer);
  EXPECT_EQ(order, (std::vector<int64_t>{0, 2, 5, 1, 4, 3}));
  EXPECT_NEAR(table->rows[0].share, 0.5 / 1.2, 1e-12);
  EXPECT_EQ(table->rows[0].more_bytes, 50);
  EXPECT_EQ(table->rows[1].more_bytes, 1251);  // 2001 * 5 bits
  EXPECT_EQ(table->rows[2].more_bytes, 0);
  EXPECT_EQ(table->rows[5].share, 0);
  EXPECT_LT(table->rows[5].rise, 0);
  ASSERT_EQ(table->advice.size(), 2);
  EXPECT_EQ(table->advice[0].layers, (std::vector<int64_t>{0, 2}));
  EXPECT_NEAR(table->advice[0].won_back, 0.8 / 1.2, 1e-12);
  EXPECT_EQ(table->advice[0].more_bytes, 1301);
  // More bits can do no more: the head has its eight already.
  EXPECT_EQ(table->advice[1].layers, (std::vector<int64_t>{0, 2, 1, 4}));
  EXPECT_EQ(table->advice[1].more_bytes, 1301 + 500 + 5);
}

// Weights that have all their bits cost no more bytes; only the inputs have few bits.
TEST(Sensitivity, AdvisesForInputsAlone) {
  const std::vector<LayerLoss> layers = {{"a", 1.5, 100, 8, 3}, {"b", 1.1, 100, 8, 8}};
  const auto table = sensitivity_table(1, layers, 8);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->advice.size(), 1);
  EXPECT_EQ(table->advice[0].layers, std::vector<int64_t>{0});
  EXPECT_EQ(table->advice[0].more_bytes, 0);
}

RC_GTEST_PROP(Sensitivity, AdviceHasTheFewestLayers, ()) {
  std::vector<LayerLoss> layers;
  for (int i = *rc::gen::inRange(0, 9); i > 0; --i) {
    layers.push_back({"layer", *rc::gen::inRange(0, 64) / 16.0, *rc::gen::inRange(1, 999), 2});
  }
  const auto table = sensitivity_table(2, layers, 8);
  double rises = 0;
  for (const LayerLoss& layer : layers) rises += std::max(layer.loss - 2, 0.0);
  RC_ASSERT(table->advice.empty() == (rises == 0));
  for (const auto& advice : table->advice) {
    double won_back = 0;
    for (const int64_t layer : advice.layers) {
      won_back += (layers[static_cast<size_t>(layer)].loss - 2) / rises;
    }
    RC_ASSERT(std::abs(won_back - advice.won_back) < 1e-12);
    // No smaller set of layers wins back as much.
    for (uint32_t subset = 0; subset < 1U << layers.size(); ++subset) {
      double other = 0;
      size_t count = 0;
      for (size_t i = 0; i < layers.size(); ++i) {
        if ((subset >> i & 1) == 0) continue;
        other += std::max(layers[i].loss - 2, 0.0) / rises;
        ++count;
      }
      RC_ASSERT(count >= advice.layers.size() || other < advice.won_back + 1e-12);
    }
  }
}

TEST(Sensitivity, RefusesWhatIsNoLoss) {
  const std::vector<LayerLoss> bad = {{"a", std::nan(""), 1, 4}}, no_bits = {{"a", 1, 1, 0}};
  auto refused = sensitivity_table(1, bad, 8);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "the loss with a quantised is not finite");
  EXPECT_FALSE(sensitivity_table(HUGE_VAL, {}, 8).ok());
  EXPECT_FALSE(sensitivity_table(1, no_bits, 8).ok());
  EXPECT_FALSE(sensitivity_table(1, {}, 0).ok());
}

}  // namespace
}  // namespace mantissa::quantise
