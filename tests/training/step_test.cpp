// Promises of a step besides its bits: it learns, allocates nothing, and guards batch norm.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <optional>

#include "base/system/test_threads.h"
#include "data/batches/shuffled_batches.h"
#include "infer/programs.h"
#include "mantissa/training.h"
#include "ops/ops.h"
#include "tests/harness.h"
#include "tests/networks.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Every allocation of this program goes through here (array forms call these).
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mantissa::testing {
namespace {

TEST(Step, AllocatesNothing) {
  const std::pair<const char*, const char*> cases[] = {{"mlp", "bfp8"},
                                                       {"lenet5", "bfp8"},
                                                       {"resnet8", "bfp8"},
                                                       {"inception_small", "bfp8"},
                                                       {"resnet8", "dfp:warmup=5"}};
  for (const auto& [model, format] : cases) {
    Harness harness(
        {.model = model, .format = format, .micro_batch_size = 8, .threads = 2, .width = 0.5});
    harness.step();  // the harness's own buffers
    const int64_t before = allocations;
    for (int i = 0; i < 3; ++i) harness.step();
    EXPECT_EQ(allocations - before, 0) << model << " " << format;
    Observations observations(harness.program());
    harness.executor().set_observations(&observations);
    const int64_t before_observing = allocations;
    for (int i = 0; i < 3; ++i) harness.step();
    EXPECT_EQ(allocations - before_observing, 0) << model << ", observed";
  }
}

// Rows of kernels that cut their work into parts were chosen before the step, and the rows for the
// parts as well.
TEST(Step, AllocatesNothingWhereConvolutionsAreCut) {
  for (const char* format : {"bfp8", "bfp:g=8,gw=32", "bfp:a=12,w=12", "bfp:block=channel"}) {
    Harness harness({.format = format, .micro_batch_size = 8, .threads = 2}, with_dilation());
    harness.step();
    const int64_t before = allocations;
    for (int i = 0; i < 3; ++i) harness.step();
    EXPECT_EQ(allocations - before, 0) << format;
  }
}

// From the source of the batches to the update.
TEST(Step, AllocatesNothingOnItsWayFromTheData) {
  Harness harness({.model = "mlp", .micro_batch_size = 8, .threads = 2});
  const ExampleSet& images = fashion_mnist().train;
  for (const bool ahead : {true, false}) {
    std::optional<ThreadLimit> limit;
    if (!ahead) limit.emplace(0);
    auto batches = ShuffledBatches::create(examples_of(images, {.shift = 2, .flip = 1}, 1),
                                           {.batch_size = 16, .seed = 1, .total_steps = 8});
    ASSERT_TRUE(batches.ok());
    EXPECT_EQ((*batches)->works_ahead(), ahead);
    const auto arena = AlignedMemory::create(harness.program().arena_bytes);
    Programs programs(harness.graph(), harness.state(),
                      {harness.pool(), arena->span(), best_isa()});
    programs.add(harness.program());
    const StepScalars scalars{.learning_rate = 0.05, .gradient_scale = 1.0 / 16};
    ASSERT_TRUE(programs.train_step((*batches)->next(), scalars).ok());
    const int64_t before = allocations;
    for (int i = 0; i < 7; ++i) {
      ASSERT_TRUE(programs.train_step((*batches)->next(), scalars).ok());
    }
    EXPECT_EQ(allocations - before, 0);
  }
}

// Labels in the type that the network reads. Names of inputs are too long for short strings.
TEST(Step, AllocatesNothingThroughThePublicInterface) {
  NetworkBuilder net("public");
  net.pixels("the pixels of the pictures", {28, 28, 1});
  net.convolution({.channels = 4, .stride = 2});
  net.batch_norm();
  net.relu();
  net.global_average_pool();
  const Var logits = net.linear(10);
  net.cross_entropy(logits, "the labels of the pictures");
  const auto network = net.finish({logits});
  ASSERT_TRUE(network.ok()) << network.error();
  auto trainer = Trainer::create(*network, {{"batch-size", "16"}, {"threads", "2"}});
  ASSERT_TRUE(trainer.ok()) << trainer.error();
  const ExampleSet& images = fashion_mnist().train;
  const std::vector<int32_t> labels = first_labels(images, 16);
  const ArraySet batch = {
      16,
      {{"the pixels of the pictures", Elements::kUint8, {28, 28, 1}, images.pixels().data()},
       {"the labels of the pictures", Elements::kInt32, {}, labels.data()}}};
  ASSERT_TRUE(trainer->step(batch, 0.01).ok());
  const int64_t before = allocations;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(trainer->step(batch, 0.01).ok());
  EXPECT_EQ(allocations - before, 0);
}

TEST(Step, AllocatesNothingWithGradientsByRows) {
  Harness harness(
      {.model = "resnet8", .batch_size = 8, .micro_batch_size = 8, .threads = 2, .by_rows = true});
  Observations observations(harness.program());
  harness.executor().set_observations(&observations);
  harness.step();
  const int64_t before = allocations;
  for (int i = 0; i < 3; ++i) harness.step();
  EXPECT_EQ(allocations - before, 0);
}

TEST(Step, AllocatesNothingWithAnyOptimizer) {
  for (const Optimizer& row : optimizers()) {
    Harness harness({.model = "lenet5",
                     .optimizer = row.kind,
                     .micro_batch_size = 8,
                     .threads = 2,
                     .clip_norm = 1});
    harness.step();
    const int64_t before = allocations;
    for (int i = 0; i < 3; ++i) harness.step();
    EXPECT_EQ(allocations - before, 0) << row.name;
  }
}

TEST(Step, EveryOptimizerLearns) {
  for (const Optimizer& row : optimizers()) {
    Harness harness({.model = "lenet5",
                     .optimizer = row.kind,
                     .batch_size = 64,
                     .micro_batch_size = 64,
                     .threads = 2});
    harness.train(100);
    EXPECT_LT(harness.train(20), 1.2) << row.name;
  }
}

// The norm of all gradients is larger than these limits, so that halving the limit halves the first
// step of SGD; seen in the biases.
TEST(Step, ClippingBoundsTheUpdate) {
  const auto moved = [](double clip_norm) {
    Harness harness({.model = "mlp", .optimizer = OptimizerKind::kSgd, .clip_norm = clip_norm});
    std::vector<double> values[2];
    for (auto& list : values) {
      for (size_t i = 0; i < harness.graph().parameters.size(); ++i) {
        if (harness.graph().parameters[i].storage != Storage::kBias) continue;
        const ParameterState& tensors = harness.state().layout().parameters[i];
        const double unit = std::ldexp(1.0, *harness.state().data<int16_t>(tensors.exponent) - 15);
        for (int64_t k = 0; k < harness.graph().parameters[i].shape.count(); ++k) {
          list.push_back(unit * (32768.0 * harness.state().data<int16_t>(tensors.mantissa)[k] -
                                 harness.state().data<int16_t>(tensors.accumulator)[k]));
        }
      }
      if (&list == &values[0]) {
        EXPECT_GT(harness.step().gradient_norm, 2 * 0.02);
      }
    }
    double square = 0;
    for (size_t i = 0; i < values[0].size(); ++i) {
      square += (values[1][i] - values[0][i]) * (values[1][i] - values[0][i]);
    }
    return std::sqrt(square);
  };
  const double large = moved(0.02), small = moved(0.01);
  EXPECT_LT(large, 0.05 * 0.02);
  EXPECT_NEAR(large / small, 2, 1e-3);
}

TEST(Step, NetworksLearn) {
  struct Case {
    const char* model;
    double width = 1;
  };
  for (const Case& c :
       {Case{"mlp"}, Case{"lenet5"}, Case{"resnet8"}, Case{"resnet18", 0.125},
        Case{"resnet50", 0.0625}, Case{"vgg16_bn", 0.125}, Case{"mobilenet_v2", 0.25},
        Case{"inception_small", 0.25}, Case{"squeezenet", 0.25}}) {
    Harness harness({.model = c.model,
                     .batch_size = 32,
                     .micro_batch_size = 32,
                     .threads = 2,
                     .width = c.width});
    harness.train(100);
    EXPECT_LT(harness.train(20), 1.7) << c.model;  // 2.30 is chance
  }
}

// Updates that are smaller than half a unit of a weight only get through with an accumulator.
TEST(Step, NoAccumulatorIsClearlyWorse) {
  const auto loss = [](const char* format) {
    Harness harness({.model = "lenet5",
                     .format = format,
                     .batch_size = 64,
                     .micro_batch_size = 64,
                     .threads = 2,
                     .learning_rate = 0.002});
    harness.train(150);
    return harness.train(50);
  };
  const double lazy = loss("bfp8"), none = loss("bfp:acc=0");
  EXPECT_LT(lazy, 1.3);
  EXPECT_GT(none, 1.5 * lazy);
}

TEST(Step, ResnetStartsWithZeroScaleInEachBlock) {
  Harness harness({.model = "resnet20"});
  int zero = 0, blocks = 0;
  for (size_t i = 0; i < harness.graph().parameters.size(); ++i) {
    const Parameter& parameter = harness.graph().parameters[i];
    if (!parameter.name.ends_with(".norm2.scale")) continue;
    ++blocks;
    const int tensor = harness.state().layout().parameters[i].mantissa;
    zero += harness.state().data<int16_t>(tensor)[0] == 0;
  }
  EXPECT_EQ(blocks, 9);
  EXPECT_EQ(zero, 9);
}

// A convolution whose channels are spread over 2^10, before batch norm.
Graph spread_network() {
  GraphBuilder builder("spread", Shape{28, 28, 1});
  int value =
      builder.add(ops::kNormaliseInput, "normalise", {builder.input()}, {{"means", WholeList{73}}});
  value = builder.add(ops::kConvolution, "conv", {value},
                      {{"channels", 8}, {"kernel", 3}, {"padding", 1}, {"bias", 0}});
  value = builder.add(ops::kBatchNorm, "norm", {value});
  value = builder.add(ops::kRelu, "relu", {value});
  value = builder.add(ops::kGlobalAveragePool, "average", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

TEST(BatchNormGuard, NarrowChannelsGetExponentsOfTheirOwn) {
  Harness harness({.batch_size = 64, .micro_batch_size = 64}, spread_network());
  State& state = harness.state();
  const ParameterState& weights = state.layout().parameters[0];
  auto* mantissas = state.data<int8_t>(weights.mantissa);
  std::memset(mantissas, 0, 8 * 9);
  for (int channel = 0; channel < 8; ++channel) {  // one tap each: 64, 32 ... 1, 127 and 127
    mantissas[channel * 9 + 4] = static_cast<int8_t>(channel < 7 ? 64 >> channel : 127);
  }
  mantissas[7 * 9 + 3] = 127;
  const int value = harness.graph().nodes[1].outputs[0];
  const uint8_t* guards = state.data<uint8_t>(state.layout().guards);
  EXPECT_EQ(guards[value], 0);
  harness.step();
  EXPECT_EQ(guards[value], 1) << "the narrowest channel has less than one unit of deviation";
  harness.step();
  const auto channels = harness.executor().channel_exponents(value);
  EXPECT_LE(channels[6], -5);
  EXPECT_EQ(*std::max_element(channels.begin(), channels.end()), 0);
}

TEST(BatchNormGuard, OrdinaryNetworksSurviveIt) {
  Harness harness({.model = "resnet8", .batch_size = 64, .micro_batch_size = 64, .threads = 2});
  State& state = harness.state();
  auto guards = state.bytes(state.layout().guards);
  std::fill(guards.begin(), guards.end(), std::byte{1});
  harness.train(100);
  EXPECT_LT(harness.train(20), 1.4);
}

}  // namespace
}  // namespace mantissa::testing
