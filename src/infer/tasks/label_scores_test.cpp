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
  EXPECT_TRUE(std::isnan(ranking_score(scored).average_precision));
  EXPECT_TRUE(std::isnan(ranking_score({}).average_precision));
}

// Targets {1,0,0} {0,1,0} {1,1,0} {0,0,0} {1,0,0}, guesses {1,0,0} {1,1,0} {0,1,0} {0,1,0} {1,1,0}.
TEST(LabelScores, F1IsScikitLearns) {
  const ClassCounts labels[] = {
      {.examples = 3, .guesses = 3, .right = 2}, {.examples = 2, .guesses = 4, .right = 2}, {}};
  const int64_t known[] = {5, 5, 5};
  const LabelsScore score = labels_score(labels, known);
  EXPECT_NEAR(score.micro_f1, 0.6666666666666666, 1e-15);
  EXPECT_NEAR(score.macro_f1, 0.4444444444444444, 1e-15);
  EXPECT_EQ(score.accuracy, (std::vector<double>{0.6, 0.6, 1.0}));
}

}  // namespace
}  // namespace mantissa
