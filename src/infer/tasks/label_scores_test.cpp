// Scores of labels against those of scikit-learn 1.7, which were computed once for these examples.
#include "infer/tasks/label_scores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mantissa {
namespace {

TEST(LabelScores, RankingIsScikitLearns) {
  const double logits[] = {0.5, -1.25, 2, 0.5, 0.5, -3, 0, 0.25, -1.25, 4, 0.5, -0.125};
  const bool labels[] = {true,  false, true, false, true,  false,
                         false, true,  true, false, false, true};
  std::vector<ScoredLabel> scored;
  for (size_t i = 0; i < std::size(logits); ++i) scored.push_back({logits[i], labels[i]});
  const RankingScore score = ranking_score(scored);
  EXPECT_NEAR(score.auc, 0.5416666666666667, 1e-15);
  EXPECT_NEAR(score.average_precision, 0.5287397787397787, 1e-15);
}

TEST(LabelScores, RankingOfTheBestAndOfOneClass) {
  std::vector<ScoredLabel> scored;
  for (int i = 0; i < 7; ++i) scored.push_back({static_cast<double>(i), i >= 3});
  const RankingScore best = ranking_score(scored);
  EXPECT_EQ(best.auc, 1);
  EXPECT_EQ(best.average_precision, 1);
  for (ScoredLabel& one : scored) one.is_one = true;
  EXPECT_TRUE(std::isnan(ranking_score(scored).auc));
  EXPECT_EQ(ranking_score(scored).average_precision, 1);
  EXPECT_EQ(ranking_score({}).average_precision, 0);
}

TEST(LabelScores, TheSecondClassIsScikitLearns) {
  const BinaryScore score = binary_score({.examples = 6, .guesses = 5, .right = 3}, {});
  EXPECT_NEAR(score.precision, 0.6, 1e-15);
  EXPECT_NEAR(score.recall, 0.5, 1e-15);
  EXPECT_NEAR(score.f1, 0.5454545454545454, 1e-15);
  EXPECT_EQ(binary_score({}, {}).precision, 0);
  EXPECT_EQ(binary_score({}, {}).f1, 0);
}

TEST(LabelScores, RanksAreScikitLearns) {
  const std::vector<std::pair<int, int>> ranks = {{0, 0}, {1, 2}, {3, 1}, {2, 2}, {0, 1},
                                                  {3, 3}, {2, 3}, {1, 1}, {0, 0}, {3, 2}};
  const OrdinalScore score = ordinal_score(ranks);
  EXPECT_NEAR(score.mae, 0.6, 1e-15);
  EXPECT_NEAR(score.kappa, 0.68, 1e-15);
  EXPECT_TRUE(std::isnan(ordinal_score(std::vector<std::pair<int, int>>{{1, 1}, {1, 1}}).kappa));
}

TEST(LabelScores, TheBestThresholdHasTheBestF1) {
  const auto scored = [](std::vector<double> scores, size_t ones) {
    std::vector<ScoredLabel> made;
    for (size_t i = 0; i < scores.size(); ++i) made.push_back({scores[i], i < ones});
    return made;
  };
  EXPECT_EQ(best_threshold(scored({3, 2, -4, -6}, 2)), 0) << "as good as any other";
  EXPECT_EQ(best_threshold(scored({3, -2, -4, -6}, 2)), -3);
  EXPECT_EQ(best_threshold(scored({9, 8, 5, 3, 3}, 2)), 6.5);
  EXPECT_EQ(best_threshold(scored({-1, -2}, 2)), -2.5) << "below all";
  EXPECT_EQ(best_threshold(scored({-1, 2}, 0)), 0) << "without ones";
  EXPECT_EQ(best_threshold({}), 0);
}

// Targets {1,0,0} {0,1,0} {1,1,0} {0,0,0} {1,0,0}, guesses {1,0,0} {1,1,0} {0,1,0} {0,1,0} {1,1,0}.
TEST(LabelScores, F1IsScikitLearns) {
  const ClassCounts labels[] = {
      {.examples = 3, .guesses = 3, .right = 2}, {.examples = 2, .guesses = 4, .right = 2}, {}};
  const int targets[5][3] = {{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 0, 0}, {1, 0, 0}};
  const double scores[5][3] = {{2, -1, -3}, {1, 2, -4}, {-1, 4, -1}, {-2, 1, -2}, {3, 0.5, -1}};
  std::vector<std::vector<ScoredLabel>> scored(3);
  for (int row = 0; row < 5; ++row) {
    for (size_t k = 0; k < 3; ++k) scored[k].push_back({scores[row][k], targets[row][k] == 1});
  }
  const LabelsScore score = labels_score(labels, scored);
  EXPECT_NEAR(score.micro_f1, 0.6666666666666666, 1e-15);
  EXPECT_NEAR(score.macro_f1, 0.4444444444444444, 1e-15);
  EXPECT_EQ(score.accuracy, (std::vector<double>{0.6, 0.6, 1.0}));
  const double f1[] = {2 / 3.0, 2 / 3.0, 0}, precision[] = {0.9166666666666666, 1, 0};
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(score.f1[k], f1[k], 1e-15);
    EXPECT_NEAR(score.average_precision[k], precision[k], 1e-15);
  }
  EXPECT_NEAR(score.mean_average_precision, 0.6388888888888888, 1e-15);
  EXPECT_NEAR(score.auc[0], 0.8333333333333334, 1e-15);
  EXPECT_TRUE(std::isnan(score.auc[2]));
  // Of places the same without ranking.
  const LabelsScore places = labels_score_of_places(labels, 5);
  EXPECT_EQ(places.micro_f1, score.micro_f1);
  EXPECT_EQ(places.accuracy, score.accuracy);
  EXPECT_EQ(places.f1, score.f1);
  EXPECT_TRUE(std::isnan(places.mean_average_precision) && std::isnan(places.auc[0]));
}

}  // namespace
}  // namespace mantissa
