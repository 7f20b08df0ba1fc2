#include "train/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "infer/tasks/classification.h"

namespace mantissa {
namespace {

constexpr auto kEntropy = ops::LossKind::kCrossEntropy;
constexpr auto kSquares = ops::LossKind::kSquaredError;

Task task(ops::LossKind loss, int64_t classes) {
  return classification_task({.classes = classes, .loss = loss}, "", {});
}

TEST(Divergence, IsJudgedByTheLastSteps) {
  const std::vector<MetricsLine> lines = {
      {.step = 50, .loss = 1000}, {.step = 100, .loss = 4}, {.step = 110, .loss = 10}};
  EXPECT_EQ(last_training_loss(lines, 50).steps, 60);
  EXPECT_DOUBLE_EQ(last_training_loss(lines, 50).mean, 5);
  EXPECT_DOUBLE_EQ(last_training_loss(lines, kJudgedSteps).mean, 10);
  EXPECT_EQ(last_training_loss(lines, kJudgedSteps).steps, 10);
  EXPECT_EQ(last_training_loss(lines, 1000).steps, 110);
  EXPECT_EQ(last_training_loss({}, 50).steps, 0);
}

TEST(Divergence, IsALossFarAboveGuessing) {
  EXPECT_DOUBLE_EQ(guessing_loss(kEntropy, 10), std::log(10));
  EXPECT_DOUBLE_EQ(guessing_loss(kSquares, 10), 0.09);
  // Losses that a network of ten classes may have.
  for (const double loss : {0.0, 2.3, 5.0, 20.0}) {
    EXPECT_EQ(divergence(task(kEntropy, 10), {loss, 50}, loss), "") << loss;
  }
  EXPECT_EQ(divergence(task(kEntropy, 10), {695064, 50}, 2),
            "the loss of the last 50 steps is 6.951e+05, that of guessing 2.303");
  EXPECT_EQ(divergence(task(kEntropy, 10), {24, 1}, 2),
            "the loss of the last 1 step is 24, that of guessing 2.303");
  EXPECT_NE(divergence(task(kEntropy, 10), {NAN, 50}, 2), "");
  EXPECT_NE(divergence(task(kEntropy, 10), {1, 50}, INFINITY), "");
  // More classes, more to guess among.
  EXPECT_NE(divergence(task(kEntropy, 2), {20, 50}, 1), "");
  EXPECT_EQ(divergence(task(kEntropy, 1000), {60, 50}, 1), "");
}

TEST(Divergence, LeavesATestLossMoreRoom) {
  EXPECT_EQ(divergence(task(kEntropy, 10), {1, 50}, 200), "");
  EXPECT_EQ(divergence(task(kEntropy, 10), {1, 50}, 3.2e6),
            "the test loss is 3.2e+06, that of guessing 2.303");
  EXPECT_EQ(divergence(task(kEntropy, 10), {1e6, 0}, 1), "");  // not judged
}

TEST(Divergence, OfSquaredErrorsIsOutputsThatMissByTen) {
  EXPECT_EQ(divergence(task(kSquares, 10), {2, 50}, 2), "");  // as before the first step
  EXPECT_NE(divergence(task(kSquares, 10), {101, 50}, 2), "");
  EXPECT_EQ(divergence(task(kSquares, 10), {1, 50}, 999), "");
  EXPECT_NE(divergence(task(kSquares, 10), {1, 50}, 1001), "");
}

TEST(Divergence, NothingLearnedIsNoBetterThanGuessing) {
  RunConfig config = default_run_config();
  config.learning_rate = 0.5;
  EXPECT_EQ(learning_note(config, task(config.loss, 10), {2.3021, 50}),
            "the loss of the last 50 steps is 2.302, no better than that of guessing (2.303): "
            "nothing was learned; try another --learning-rate than 0.5, a smaller one first");
  EXPECT_EQ(learning_note(config, task(config.loss, 10), {2.2, 50}), "");
  EXPECT_EQ(learning_note(config, task(config.loss, 10), {2.3025, 0}), "");
  config.loss = kSquares;
  EXPECT_NE(learning_note(config, task(config.loss, 10), {0.09, 50}), "");
}

TEST(Divergence, IsAnErrorThatSaysWhatToTry) {
  RunConfig config = default_run_config();
  config.learning_rate = 3;
  EXPECT_TRUE(check_converged(config, "").ok());
  const Status status = check_converged(config, "the test loss is 1e+06");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kFailed);
  EXPECT_NE(status.error().message.find("a smaller --learning-rate than 3"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
