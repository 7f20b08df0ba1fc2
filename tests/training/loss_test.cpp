// The losses in runs: chosen by name, the same bits over threads and instruction sets, learning.
#include <gtest/gtest.h>

#include "run/settings/config_file.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

struct Choice {
  ops::LossKind loss;
  int64_t smoothing;
};

constexpr Choice kChoices[] = {{ops::LossKind::kCrossEntropy, 0},
                               {ops::LossKind::kCrossEntropy, 6554},
                               {ops::LossKind::kSquaredError, 0},
                               {ops::LossKind::kSigmoids, 0}};

HarnessOptions options_for(const Choice& choice) {
  HarnessOptions options;
  options.loss = choice.loss;
  options.label_smoothing = choice.smoothing;
  return options;
}

TEST(Losses, SameBitsOverThreadsAndInstructionSetsInAllWidths) {
  std::vector<std::string> seen;
  for (const Choice& choice : kChoices) {
    for (const char* format :
         {"bfp8", "bfp:g=6", "bfp:g=8", "bfp:g=12", "bfp:g=8,gr=stochastic", "bfp:g=8,gw=32"}) {
      HarnessOptions options = options_for(choice);
      options.format = format;
      options.batch_size = 96;  // several grains of rows
      options.micro_batch_size = 96;
      options.isa = Isa::kScalar;
      Harness scalar(options);
      const double loss = scalar.train(2);
      for (const int threads : {1, 3}) {
        options.isa = best_isa();
        options.threads = threads;
        Harness harness(options);
        EXPECT_EQ(harness.train(2), loss);
        EXPECT_EQ(harness.weights_sha256(), scalar.weights_sha256());
      }
      for (const std::string& other : seen) EXPECT_NE(scalar.weights_sha256(), other);
      seen.push_back(scalar.weights_sha256());
    }
  }
}

TEST(Losses, Learn) {
  for (const Choice& choice : kChoices) {
    HarnessOptions options = options_for(choice);
    options.batch_size = options.micro_batch_size = 64;
    Harness harness(options);
    const double before = harness.train(3);
    harness.train_to_rest(200);
    int64_t correct = 0;
    double after = 0;
    for (int i = 0; i < 10; ++i) {
      const StepResult step = harness.step();
      correct += step.correct;
      after += step.loss / 10;
    }
    EXPECT_LT(after, 0.7 * before);
    EXPECT_GT(correct, 640 * 6 / 10);
  }
}

TEST(Losses, AreSettings) {
  const auto mse = make_run_config({{"loss", "mse"}});
  ASSERT_TRUE(mse.ok());
  EXPECT_EQ(mse->loss, ops::LossKind::kSquaredError);
  const auto smoothed = make_run_config({{"label-smoothing", "0.1"}});
  ASSERT_TRUE(smoothed.ok());
  EXPECT_EQ(smoothed->label_smoothing, 0.1);
  EXPECT_NE(to_toml(*smoothed)->find("label-smoothing = \"0.1\""), std::string::npos);
  EXPECT_NE(run_identity(*smoothed, ""), run_identity(*make_run_config({}), ""));
  EXPECT_EQ(make_run_config({{"loss", "hinge"}}).error().message,
            "loss: unknown loss 'hinge'; choose one of cross-entropy, mse, sigmoid");
  EXPECT_EQ(make_run_config({{"label-smoothing", "1"}}).error().message,
            "label-smoothing: '1' is not a number from 0 to 0.99");
  EXPECT_EQ(make_run_config({{"loss", "mse"}, {"label-smoothing", "0.1"}}).error().message,
            "label-smoothing goes with --loss cross-entropy only, not with --loss mse");
}

}  // namespace
}  // namespace mantissa::testing
