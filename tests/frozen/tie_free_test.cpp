// Frozen networks in the tie-free form: that training computes the same, that their numbers obey
// the rules, their files, and what has no such form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/test_folder.h"
#include "infer/tflite_file.h"
#include "ops/ops.h"
#include "start/fold_batch_norm.h"
#include "tests/frozen/frozen.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kTieFreePictures = 64;
const char* const kTieFreeFormat = "bfp8-portable";

FrozenNetwork frozen_of(Harness& harness, const Graph& network, const std::string& format) {
  const Format parsed = *parse_format(format);
  const Program program = calibration_program(harness.graph(), parsed, kTieFreePictures, false);
  auto arena = AlignedMemory::create(freeze_bytes(program));
  FrozenDescription description;
  description.network = network;
  description.options = fashion_options();
  description.format = parsed;
  description.class_names = fashion_mnist().info.target.names;
  auto frozen =
      freeze_with(harness, program, arena->span(), std::move(description), 10 * kTieFreePictures);
  EXPECT_TRUE(frozen.ok()) << (frozen.ok() ? "" : frozen.error().message);
  return std::move(*frozen);
}

HarnessOptions options_of(const std::string& format) {
  return {.format = format,
          .batch_size = kTieFreePictures,
          .micro_batch_size = kTieFreePictures,
          .threads = 2};
}

// All that the form has: biases, batch norms, both ReLUs, sums with and without one, all pools.
Graph mixed_network() {
  Layers net("mixed", fashion_options());
  net.convolution("conv", 8, 5, 2, 2, true);
  net.batch_norm("norm1");
  net.relu6("relu6");
  const int first = net.last();
  net.convolution("depthwise", 8, 3, 1, 1, false, 8);
  const int branch = net.batch_norm("norm2");
  const int linear_sum = net.sum("add", branch, first);
  net.convolution("projected", 8, 1, 1, 0, true);
  net.sum("add2", net.last(), linear_sum);
  net.relu("relu2");
  net.max_pool("max", 3, 2, 1);
  net.add(ops::kAveragePool, "average", {{"window", 2}, {"stride", 1}});
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

// The mantissas of predict --raw.
Classified classified(FrozenNetwork& frozen, Isa isa = best_isa()) {
  ThreadPool pool(2);
  ExampleSet test = fashion_mnist().test;
  test.count = kTieFreePictures;
  auto found = classify(frozen, examples_of(test), pool, isa);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
  return std::move(*found);
}

std::map<std::string, int16_t> exponents_by_name(const FrozenNetwork& frozen) {
  std::map<std::string, int16_t> exponents;
  const StateLayout& layout = frozen.state.layout();
  for (size_t v = 0; v < frozen.graph.values.size(); ++v) {
    const int slot = layout.slots.of_value[v];
    if (slot < 0) continue;
    exponents[frozen.graph.values[v].name] = frozen.state.data<int16_t>(layout.exponents)[slot];
  }
  return exponents;
}

// Without batch norms the forward pass of training is the frozen network's, to the bit.
TEST(TieFree, TrainingComputesTheFrozenNetwork) {
  const Graph network = *build_model("lenet5", fashion_options());
  Harness harness(options_of(kTieFreeFormat), network);
  harness.train(20);
  FrozenNetwork frozen = frozen_of(harness, network, kTieFreeFormat);
  const Classified expected = classified(frozen);
  auto exponents = exponents_by_name(frozen);

  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  auto program = compile(harness.graph(),
                         {.kind = ProgramKind::kInference,
                          .micro_batch_size = kTieFreePictures,
                          .exponents = ExponentMode::kFixed,
                          .format = *parse_format(kTieFreeFormat)},
                         {&table, 2});
  ASSERT_TRUE(program.ok()) << program.error().message;
  auto arena = AlignedMemory::create(program->arena_bytes);
  Programs programs(harness.graph(), harness.state(), {harness.pool(), arena->span(), best_isa()});
  Executor& executor = programs.add(*program);
  for (size_t v = 0; v < harness.graph().values.size(); ++v) {
    const auto found = exponents.find(harness.graph().values[v].name);
    if (found != exponents.end()) {
      executor.set_exponents(static_cast<int>(v), found->second, std::vector<int8_t>());
    }
  }
  ExampleSet test = fashion_mnist().test;
  test.count = kTieFreePictures;
  auto batches = OrderedBatches::create(examples_of(test), kTieFreePictures);
  ASSERT_TRUE(programs.infer(batches->next()).ok());
  const Tensor logits = programs.outputs();
  ASSERT_EQ(logits.count(), std::ssize(expected.mantissas));
  const int shift = expected.exponent - *logits.exponent;
  ASSERT_GT(shift, 1);
  for (int64_t i = 0; i < logits.count(); ++i) {
    const int64_t wide = logits.as<int32_t>()[i];
    ASSERT_EQ(wide & 1, 1);
    const int64_t narrow =
        std::clamp<int64_t>(shift_right_rhu((wide - 1) / 2, shift - 1), -128, 127);
    ASSERT_EQ(narrow, expected.mantissas[static_cast<size_t>(i)]) << i;
  }
}

class TieFreeMixed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    harness_ = new Harness(options_of(kTieFreeFormat), mixed_network());
    harness_->train(60);
    frozen_ = new FrozenNetwork(frozen_of(*harness_, mixed_network(), kTieFreeFormat));
  }
  static void TearDownTestSuite() {
    delete frozen_;
    delete harness_;
  }
  static Harness* harness_;
  static FrozenNetwork* frozen_;
};
Harness* TieFreeMixed::harness_ = nullptr;
FrozenNetwork* TieFreeMixed::frozen_ = nullptr;

TEST_F(TieFreeMixed, NumbersObeyTheRules) {
  ASSERT_EQ(frozen_->description.form, FrozenForm::kTieFree);
  ASSERT_TRUE(verify(frozen_->graph).ok());
  int layers = 0;
  for (const Node& node : frozen_->graph.nodes) {
    if (node.op != &ops::kRescaledConvolution && node.op != &ops::kRescaledLinear) continue;
    ++layers;
    const auto& parameters = frozen_->state.layout().parameters;
    const auto tensor = [&](size_t i) { return parameters[node.parameters[i]].mantissa; };
    const int64_t count = frozen_->graph.parameters[node.parameters[0]].shape.count();
    const int8_t* weights = frozen_->state.data<int8_t>(tensor(0));
    EXPECT_TRUE(std::all_of(weights, weights + count, [](int w) { return w % 2 == 0; }));
    const int64_t channels = frozen_->graph.parameters[node.parameters[1]].shape.count();
    for (int64_t c = 0; c < channels; ++c) {
      int exponent = 0;
      const float multiplier = frozen_->state.data<float>(tensor(2))[c];
      EXPECT_EQ(std::frexp(multiplier, &exponent), 0.5f) << node.name;
      const int32_t bias = frozen_->state.data<int32_t>(tensor(1))[c];
      EXPECT_EQ(bias % 2 != 0, multiplier <= 0.25f) << node.name;
    }
  }
  EXPECT_EQ(layers, 7);  // with two means
}

TEST_F(TieFreeMixed, ComesBackFromItsFileAndIsTheSameOnAllCpus) {
  const TestFolder folder;
  ASSERT_TRUE(save_frozen(folder / "frozen", *frozen_).ok());
  auto loaded = load_frozen(folder / "frozen");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->description.form, FrozenForm::kTieFree);
  const Classified expected = classified(*frozen_, Isa::kScalar);
  for (const Isa isa : kAllIsas) {
    if (!cpu_features().contains(features_of(isa))) continue;
    EXPECT_EQ(classified(*loaded, isa).mantissas, expected.mantissas) << isa_name(isa);
  }
}

TEST_F(TieFreeMixed, LosesLittle) {
  const double accuracy =
      evaluate_with(*frozen_, kTieFreePictures, 2, best_isa(), fashion_mnist().test).accuracy();
  EXPECT_GT(accuracy, 0.6);
  EXPECT_NEAR(accuracy,
              evaluate_unfrozen(*harness_, *parse_format(kTieFreeFormat), 100, fashion_mnist().test)
                  .accuracy,
              0.015);
}

TEST_F(TieFreeMixed, IsExportedAndCheckedOnTheWay) {
  auto model = export_tflite(*frozen_);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(*tflite::model_bytes(*model), *tflite::model_bytes(*export_tflite(*frozen_)));
  for (size_t i = 0; i < frozen_->graph.parameters.size(); ++i) {
    if (frozen_->graph.parameters[i].name != "projected.sum_bias") continue;
    int32_t& bias = frozen_->state.data<int32_t>(frozen_->state.layout().parameters[i].mantissa)[3];
    ++bias;
    model = export_tflite(*frozen_);
    --bias;
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.error().message.find("node 'projected' (rescaled_convolution) has numbers in "
                                         "channel 3 whose sums runtimes would round differently"),
              std::string::npos)
        << model.error().message;
  }
}

TEST(TieFree, NamesTheNodeThatHasNoSuchForm) {
  Layers net("gated", fashion_options());
  net.convolution("conv", 8, 5, 2, 2, true);
  net.sigmoid("gate");
  const Status status = check_form(finished(net), FrozenForm::kTieFree);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "gated: with ties=up, node 'gate' (sigmoid) has no form without ties");
}

// The folded network computes what the trained one does, up to rounding.
TEST(TieFree, FoldsBatchNormsBeforeTrainingGoesOn) {
  const Graph network = mixed_network();
  Harness harness(options_of("bfp8"), network);
  harness.train(60);
  auto folded = fold_batch_norms(network, named_parameters(harness.graph(), harness.state()));
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  for (const Node& node : folded->graph.nodes) EXPECT_NE(node.op, &ops::kBatchNorm) << node.name;
  const char* const format = "bfp:w=7,block=channel,ties=up";
  Harness next(options_of(format), folded->graph);
  auto taken = take_named_parameters(folded->graph, *parse_format(format),
                                     named_parameters(*folded), next.state());
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(taken->initial.empty());
  FrozenNetwork before = frozen_of(harness, network, "bfp8");
  FrozenNetwork after = frozen_of(next, folded->graph, format);
  const auto accuracy = [](FrozenNetwork& frozen) {
    return evaluate_with(frozen, kTieFreePictures, 2, best_isa(), fashion_mnist().test).accuracy();
  };
  EXPECT_NEAR(accuracy(after), accuracy(before), 0.02);
}

}  // namespace
}  // namespace mantissa::testing
