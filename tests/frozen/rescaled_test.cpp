// Frozen networks whose layers took in their batch norms: their parts, and that they compute what
// scale_offset computes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_folder.h"
#include "tests/frozen/frozen.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kBatchPictures = 64;

// Layers with and without a bias of their own, a ReLU6, a ReLU, no function, and both averages.
Graph normalised_network() {
  Layers net("normalised", fashion_options());
  net.convolution("conv", 8, 5, 2, 2, true);
  net.batch_norm("norm1");
  net.relu6("relu6");
  net.convolution("depthwise", 8, 3, 1, 1, false, 8);
  const int branch = net.batch_norm("norm2");
  net.relu("relu");
  const int activated = net.last();
  net.sum("add", branch, activated);
  net.add(ops::kAveragePool, "average",
          {{"window", 3}, {"stride", 2}, {"padding", 1}, {"count_padding", 0}});
  const int pooled = net.last();
  net.add(ops::kFlatten, "flatten");
  net.linear("linear", 24);
  net.batch_norm("norm3");
  net.relu("relu3");
  const int vector = net.last();
  net.continue_from(pooled);
  net.add(ops::kGlobalAveragePool, "global");
  net.concat("concat", {vector, net.last()});
  return finished(net);
}

class Rescaled : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    harness_ = new Harness(
        {.batch_size = kBatchPictures, .micro_batch_size = kBatchPictures, .threads = 2},
        normalised_network());
    harness_->train(120);
    program_ = new Program(calibration_program(harness_->graph(), {}, kBatchPictures, false));
    frozen_ = new FrozenNetwork(freeze_as(FrozenForm::kRescaled));
  }
  static void TearDownTestSuite() {
    delete frozen_;
    delete program_;
    delete harness_;
  }

  static FrozenNetwork freeze_as(FrozenForm form) {
    FrozenDescription description;
    description.network = normalised_network();
    description.options = fashion_options();
    description.class_names = fashion_mnist().info.target.names;
    description.form = form;
    Graph graph = freeze_graph(harness_->graph(), form);
    auto state = State::create(frozen_layout(graph, {}));
    auto arena = AlignedMemory::create(freeze_bytes(*program_));
    FrozenNetwork frozen{std::move(description), std::move(graph), std::move(*state)};
    EXPECT_TRUE(fill(*harness_, *program_, arena->span(), 10 * kBatchPictures, frozen).ok());
    return frozen;
  }

  static double accuracy(FrozenNetwork& network) {
    return evaluate_with(network, kBatchPictures, 2, best_isa(), fashion_mnist().test).accuracy();
  }

  // The first of the frozen network's parameters that has this storage.
  static int tensor_of(Storage storage) {
    for (size_t i = 0; i < frozen_->graph.parameters.size(); ++i) {
      if (frozen_->graph.parameters[i].storage == storage) {
        return frozen_->state.layout().parameters[i].mantissa;
      }
    }
    return -1;
  }

  static Harness* harness_;
  static Program* program_;
  static FrozenNetwork* frozen_;
};

Harness* Rescaled::harness_ = nullptr;
Program* Rescaled::program_ = nullptr;
FrozenNetwork* Rescaled::frozen_ = nullptr;

TEST_F(Rescaled, IsTheFormOfNetworksOfEightBits) {
  EXPECT_EQ(frozen_form(harness_->graph(), {}), FrozenForm::kRescaled);
  EXPECT_EQ(frozen_form(harness_->graph(), *parse_format("fp32")), FrozenForm::kScaleOffset);
  EXPECT_EQ(frozen_form(harness_->graph(), *parse_format("bfp:a=12")), FrozenForm::kScaleOffset);
  EXPECT_EQ(frozen_form(harness_->graph(), *parse_format("bfp:w=12")), FrozenForm::kScaleOffset);
}

TEST_F(Rescaled, JoinsLayersWithWhatFollows) {
  EXPECT_TRUE(verify(frozen_->graph).ok());
  std::string nodes;
  for (const Node& node : frozen_->graph.nodes) {
    nodes += node.name + ":" + node.op->name + " ";
    EXPECT_NE(node.op, &ops::kScaleOffset) << node.name;
  }
  EXPECT_NE(nodes.find("conv:rescaled_convolution depthwise:rescaled_convolution relu:relu"),
            std::string::npos)
      << nodes;
  EXPECT_NE(nodes.find("linear:rescaled_linear"), std::string::npos) << nodes;
  EXPECT_NE(nodes.find("average:exact_average_pool"), std::string::npos) << nodes;
  EXPECT_NE(nodes.find("global:rescaled_global_average"), std::string::npos) << nodes;
}

TEST_F(Rescaled, IsAsGoodAsScaleOffset) {
  FrozenNetwork old = freeze_as(FrozenForm::kScaleOffset);
  EXPECT_GT(accuracy(*frozen_), 0.6);
  EXPECT_NEAR(accuracy(*frozen_), accuracy(old), 0.0075);
}

TEST_F(Rescaled, DoesNotDependOnBatchSizeThreadsOrInstructionSet) {
  ExampleSet test = fashion_mnist().test;
  test.count = 300;
  const double expected = evaluate_with(*frozen_, kBatchPictures, 1, Isa::kScalar, test).loss;
  for (const Isa isa : kAllIsas) {
    if (!cpu_features().contains(features_of(isa))) continue;
    EXPECT_EQ(evaluate_with(*frozen_, 7, 2, isa, test).loss, expected) << isa_name(isa);
    EXPECT_EQ(evaluate_with(*frozen_, 300, 3, isa, test).loss, expected) << isa_name(isa);
  }
}

TEST_F(Rescaled, ComesBackFromItsFile) {
  const TestFolder folder;
  ASSERT_TRUE(save_frozen(folder / "frozen", *frozen_).ok());
  auto loaded = load_frozen(folder / "frozen");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->state.sha256(StateGroup::kPredictor),
            frozen_->state.sha256(StateGroup::kPredictor));
  FrozenNetwork old = freeze_as(FrozenForm::kScaleOffset);
  ASSERT_TRUE(save_frozen(folder / "old", old).ok());
  auto loaded_old = load_frozen(folder / "old");
  ASSERT_TRUE(loaded_old.ok()) << loaded_old.error().message;
  EXPECT_EQ(loaded_old->description.form, FrozenForm::kScaleOffset);
}

TEST_F(Rescaled, RefusesNumbersThatSumsOrProductsCannotHave) {
  const TestFolder folder;
  const auto refusal = [&] {
    EXPECT_TRUE(save_frozen(folder / "frozen", *frozen_).ok());
    const auto loaded = load_frozen(folder / "frozen");
    return loaded.ok() ? "accepted" : loaded.error().message;
  };
  float& multiplier = frozen_->state.data<float>(tensor_of(Storage::kFloat))[1];
  int32_t& bias = frozen_->state.data<int32_t>(tensor_of(Storage::kSum))[1];
  const float was = multiplier;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    multiplier = bad;
    EXPECT_EQ(refusal(), folder.path().string() +
                             "/frozen: tensor 'conv.multiplier' has a number outside its range");
  }
  multiplier = was;
  const int32_t was_bias = bias;
  for (const int32_t bad : {(1 << 30) + 1, INT32_MIN}) {
    bias = bad;
    EXPECT_NE(refusal().find("'conv.sum_bias' has a number out"), std::string::npos);
  }
  bias = was_bias;
  EXPECT_EQ(refusal(), "accepted");
}

}  // namespace
}  // namespace mantissa::testing
