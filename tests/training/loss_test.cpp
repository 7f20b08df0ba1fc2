// The losses in runs: chosen by name, the same bits over threads and instruction sets, learning.
#include <gtest/gtest.h>

#include "networks/frozen_graph.h"
#include "ops/attributes.h"
#include "ops/ops.h"
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
                               {ops::LossKind::kSigmoids, 0},
                               {ops::LossKind::kSigmoids, 6554}};

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
            "loss: unknown loss 'hinge'; choose one of cross-entropy, mse, sigmoid, ordinal, dice, "
            "dice-cross-entropy, l1, huber");
  EXPECT_EQ(make_run_config({{"loss", "ctc"}}).error().message,
            "loss: 'ctc' has the most labels of an example, which a network says itself: the node "
            "ctc_loss in JSON, Python or C++, with labels [N, most] in an NPZ file (docs/data.md)");
  EXPECT_EQ(make_run_config({{"label-smoothing", "1"}}).error().message,
            "label-smoothing: '1' is not a number from 0 to 0.99");
  EXPECT_EQ(make_run_config({{"loss", "mse"}, {"label-smoothing", "0.1"}}).error().message,
            "label-smoothing goes with --loss cross-entropy and sigmoid only, not with --loss mse");
  const auto refused = [](const std::map<std::string, std::string>& settings) {
    return make_run_config(settings).error().message;
  };
  EXPECT_EQ(refused({{"focal", "2"}}),
            "focal goes with --loss sigmoid only, not with --loss cross-entropy");
  EXPECT_EQ(refused({{"positive-weights", "2"}}),
            "positive-weights goes with --loss sigmoid only, not with --loss cross-entropy");
  EXPECT_EQ(refused({{"loss", "sigmoid"}, {"positive-weights", "2,32"}}),
            "positive-weights: '32' is not a number from 0 to 31");
  EXPECT_EQ(refused({{"loss", "l1"}, {"huber-delta", "2"}}),
            "huber-delta goes with --loss huber only, not with --loss l1");
  EXPECT_EQ(refused({{"temperature", "2"}}), "temperature: goes with --teacher");
  const auto weighed = make_run_config({{"loss", "sigmoid"}, {"positive-weights", "2,0.5"}});
  ASSERT_TRUE(weighed.ok());
  EXPECT_EQ(weighed->positive_weights, (std::vector<int64_t>{2048, 512}));
  EXPECT_NE(to_toml(*weighed)->find("positive-weights = \"2,0.5\""), std::string::npos);
  EXPECT_NE(run_identity(*weighed, ""), run_identity(*make_run_config({{"loss", "sigmoid"}}), ""));
}

// Smoothing, weights, focal factors and a teacher are of training.
TEST(Losses, EvaluationIsPlain) {
  const auto loss_of_frozen = [](const ops::LossOptions& options, bool is_taught) {
    Graph graph = *build_model("mlp", {.loss = options.kind});
    graph.nodes.pop_back();
    graph.losses.clear();
    graph.inputs.pop_back();
    graph = *ops::with_loss(std::move(graph), options);
    if (is_taught) {
      EXPECT_TRUE(ops::add_teacher(graph, 0.5, 2).ok());
    }
    EXPECT_TRUE(ops::add_row_weights(graph).ok());
    const Graph frozen = freeze_graph(graph);
    return frozen.nodes[frozen.losses[0]];
  };
  const Node smoothed = loss_of_frozen({.smoothing = 0.1}, false);
  EXPECT_EQ(smoothed.op, &ops::kSoftmaxCrossEntropy);
  EXPECT_EQ(smoothed.attributes.as<ops::LossAttributes>().smoothing_q16, 0);
  EXPECT_EQ(smoothed.inputs.size(), 2u);
  const Node taught = loss_of_frozen({}, true);
  EXPECT_EQ(taught.op, &ops::kSoftmaxCrossEntropy);
  EXPECT_EQ(taught.inputs.size(), 2u);
  const Node sigmoids = loss_of_frozen(
      {.kind = ops::LossKind::kSigmoids, .smoothing = 0.1, .focal = 2, .positive_weights = {512}},
      false);
  EXPECT_TRUE(sigmoids.attributes.as<ops::SigmoidLossAttributes>().is_plain());
  EXPECT_EQ(sigmoids.inputs.size(), 2u);
}

}  // namespace
}  // namespace mantissa::testing
