// Updates may compute gradients of weights a few rows at a time: the bits are those of whole
// gradients.
#include "plan/retention/gradient_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "plan/retention/compile_training.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

int64_t updates_by_rows(const Program& program) {
  return std::count_if(program.instructions.begin(), program.instructions.end(),
                       [](const Instruction& i) { return i.gradient_rows != nullptr; });
}

// Compares every byte of the state, the counts of each step, and the observations in it.
void expect_same_steps(Harness& whole, Harness& by_rows, int steps) {
  ASSERT_EQ(updates_by_rows(whole.program()), 0);
  ASSERT_GT(updates_by_rows(by_rows.program()), 0);
  Observations of_whole(whole.program()), of_rows(by_rows.program());
  whole.executor().set_observations(&of_whole);
  by_rows.executor().set_observations(&of_rows);
  for (int i = 0; i < steps; ++i) {
    expect_same_counts(whole.step(), by_rows.step());
    ASSERT_EQ(of_whole.tensors().size(), of_rows.tensors().size());
    for (size_t t = 0; t < of_whole.tensors().size(); ++t) {
      const TensorObservation &x = of_whole.tensors()[t], &y = of_rows.tensors()[t];
      EXPECT_EQ(x.bits.by_length, y.bits.by_length) << "tensor " << t;
      EXPECT_EQ(x.exponent, y.exponent) << "tensor " << t;
    }
  }
  EXPECT_EQ(whole.state_sha256(), by_rows.state_sha256());
}

void expect_same(HarnessOptions options, int steps) {
  SCOPED_TRACE(options.model + " " + options.format);
  Harness whole(options);
  options.by_rows = true;
  Harness by_rows(options);
  expect_same_steps(whole, by_rows, steps);
}

TEST(GradientRows, GiveTheSameBits) {
  constexpr NetworkInFormat kCases[] = {{"mlp", "bfp8"},
                                        {"mlp", "bfp:acc=0,round=stochastic"},
                                        {"lenet5", "bfp:g=8,gr=stochastic"},
                                        {"lenet5", "bfp:g=8,gw=16"},
                                        {"lenet5", "bfp:w=12"},
                                        {"lenet5", "dfp:warmup=2"},
                                        {"resnet8", "bfp8"},
                                        {"resnet8", "bfp:w=4,a=4,linear=8,unsigned=yes"},
                                        {"mobilenet_v2", "bfp8", 0.125},
                                        {"mobilenet_v2", "bfp:inversion=yes", 0.125}};
  for (const NetworkInFormat& network : kCases) expect_same(small_steps(network), 3);
}

TEST(GradientRows, WithValuesThatAreComputedAgain) {
  HarnessOptions options{
      .model = "resnet8", .batch_size = 8, .micro_batch_size = 8, .threads = 2, .by_rows = true};
  Harness kept(options);
  for (options.retention_key = 1; options.retention_key < 4; ++options.retention_key) {
    Harness again(options);
    EXPECT_GT(updates_by_rows(again.program()), 0);
    for (int i = 0; i < 3; ++i) again.step();
    if (options.retention_key == 1) {
      for (int i = 0; i < 3; ++i) kept.step();
    }
    EXPECT_EQ(again.state_sha256(), kept.state_sha256());
  }
}

// A layer whose rows do not fit at once; the last piece has fewer rows.
Graph with_large_layer() {
  Layers net("large", fashion_options());
  net.add(ops::kFlatten, "flatten");
  net.linear("linear1", 1003);
  net.relu("relu");
  net.linear("linear2", 1203);
  return finished(net);
}

TEST(GradientRows, OverThreadsAndInstructionSets) {
  HarnessOptions options{.batch_size = 5, .micro_batch_size = 5};
  Harness whole(options, with_large_layer());
  for (int i = 0; i < 2; ++i) whole.step();
  options.by_rows = true;
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    for (const int threads : {1, 3}) {
      options.isa = isa, options.threads = threads;
      Harness by_rows(options, with_large_layer());
      const Program& program = by_rows.program();
      const auto update = std::find_if(
          program.instructions.begin(), program.instructions.end(),
          [](const Instruction& i) { return i.name == "linear2.weights" && i.gradient_rows; });
      ASSERT_NE(update, program.instructions.end());
      EXPECT_LT(update->rows_at_once, 1203 / threads) << "or nothing is repeated";
      for (int i = 0; i < 2; ++i) by_rows.step();
      EXPECT_EQ(by_rows.state_sha256(), whole.state_sha256()) << isa_name(isa) << threads;
    }
  }
}

TEST(GradientRows, OfConvolutionsOverThreadsInstructionSetsAndWidths) {
  for (const char* format : {"bfp:g=8,gr=stochastic", "bfp:g=8,gw=16", "dfp:g=8,warmup=1"}) {
    HarnessOptions options{
        .model = "resnet8", .format = format, .batch_size = 4, .micro_batch_size = 4};
    Harness whole(options);
    for (int i = 0; i < 2; ++i) whole.step();
    options.by_rows = true;
    for (const Isa isa : kAllIsas) {
      if (!is_supported(isa)) continue;
      for (const int threads : {2, 17, 70}) {  // more than rows, more than parts
        if (threads > 2 && isa != best_isa()) continue;
        options.isa = isa, options.threads = threads;
        Harness by_rows(options);
        EXPECT_GT(updates_by_rows(by_rows.program()), 0);
        for (int i = 0; i < 2; ++i) by_rows.step();
        EXPECT_EQ(by_rows.state_sha256(), whole.state_sha256())
            << format << isa_name(isa) << threads;
      }
    }
  }
}

// How many updates read their gradient by rows in the last step, since their sums did not fit.
int64_t fallen_back(Harness& harness) {
  int64_t count = 0;
  for (int i = 0; i < static_cast<int>(harness.program().instructions.size()); ++i) {
    const OpContext& c = harness.executor().context(i);
    if (!c.parameters.empty() && c.parameters[0].gradient_rows != nullptr)
      count += *c.parameters[0].narrow_sums == 0 ? 1 : 0;
  }
  return count;
}

// An exponent that begins far too low makes all gradients as large as possible, for 600 classes and
// their inputs. Then sums over 600 rows do not fit 32 bits.
constexpr const char* kAllLarge = "dfp:warmup=0,start=-30";

const ModelOptions& many_classes() {
  static const ModelOptions options{.classes = 600, .channel_means = {73}};
  return options;
}

// Layers with so many weights that memory for their sums counts as much as memory for some rows.
Graph with_deep_layers() {
  Layers net("deep", many_classes());
  net.add(ops::kFlatten, "flatten");
  net.linear("linear", 600);
  return finished(net);
}

Graph with_deep_convolution() {
  Layers net("deep", many_classes());
  net.convolution("conv1", 128, 5, 4, 2, true);
  net.relu("relu");
  net.convolution("conv2", 400, 3, 4, 1, true);
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

HarnessOptions large_batches(const char* format, int64_t size) {
  return {.format = format, .batch_size = size, .micro_batch_size = size, .threads = 2};
}

// Bit lengths of the gradients that are observed in a step, in any order.
std::set<decltype(BitLengths::by_length)> observe(Harness& harness) {
  Observations seen(harness.program());
  harness.executor().set_observations(&seen);
  harness.step();
  harness.executor().set_observations(nullptr);
  std::set<decltype(BitLengths::by_length)> gradients;
  for (const TensorObservation& t : seen.tensors()) {
    if (t.kind == ObservedKind::kParameterGradient) gradients.insert(t.bits.by_length);
  }
  return gradients;
}

void expect_same_as_64_bits(const Graph& graph, HarnessOptions options, int64_t fall_back) {
  SCOPED_TRACE(options.format);
  Harness measured(options, graph);
  EXPECT_GT(updates_by_rows(measured.program()), 0);
  // An update that waits for the norm has memory for sums of 64 bits.
  options.clip_norm = 1e9;
  Harness whole(options, graph);
  ASSERT_EQ(updates_by_rows(whole.program()), 0);
  EXPECT_EQ(observe(measured), observe(whole));
  EXPECT_EQ(fallen_back(measured), fall_back);
  measured.step(), whole.step();
  EXPECT_EQ(measured.state_sha256(), whole.state_sha256());
}

TEST(GradientRows, OfSumsThatAreMeasuredNotToFit) {
  const Graph layers = with_deep_layers(), convolution = with_deep_convolution();
  expect_same_as_64_bits(layers, large_batches(kAllLarge, 600), 2);
  expect_same_as_64_bits(layers, large_batches("dfp:g=8,gw=16,warmup=0,start=-30", 600), 1);
  expect_same_as_64_bits(layers, large_batches("bfp8", 600), 0);
  expect_same_as_64_bits(convolution, large_batches(kAllLarge, 500), 1);
}

TEST(GradientRows, OfSumsThatAreMeasuredNotToFitOverThreadsAndInstructionSets) {
  const Graph graph = with_deep_layers();
  HarnessOptions options = large_batches(kAllLarge, 600);
  Harness first(options, graph);
  first.step();
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    for (const int threads : {1, 2, 8}) {
      if (isa == Isa::kScalar && threads != 2) continue;  // slow
      options.isa = isa, options.threads = threads;
      Harness other(options, graph);
      other.step();
      EXPECT_EQ(other.state_sha256(), first.state_sha256()) << isa_name(isa) << threads;
      if (threads <= 2) {
        EXPECT_EQ(fallen_back(other), 2) << isa_name(isa) << threads;
      }
    }
  }
}

TEST(GradientRows, OfSumsThatAreMeasuredNotToFitFromValuesThatAreComputedAgain) {
  for (const Graph& graph : {with_deep_layers(), with_deep_convolution()}) {
    HarnessOptions options = large_batches(kAllLarge, 600);
    Harness kept(options, graph);
    kept.step();
    for (options.retention_key = 1; options.retention_key < 4; ++options.retention_key) {
      Harness again(options, graph);
      again.step();
      EXPECT_GT(fallen_back(again), 0);
      EXPECT_EQ(again.state_sha256(), kept.state_sha256()) << options.retention_key;
    }
  }
}

// If sums outlive the node, or an update overwrites them, they are kept as a whole.
TEST(GradientRows, AreNotForAllUpdates) {
  HarnessOptions options{.model = "mlp", .by_rows = true};
  EXPECT_GT(updates_by_rows(Harness(options).program()), 0);
  const auto none = [](const HarnessOptions& other) {
    return updates_by_rows(Harness(other).program()) == 0;
  };
  HarnessOptions other = options;
  other.micro_batch_size = 8;
  EXPECT_TRUE(none(other)) << "several micro-batches";
  other = options, other.clip_norm = 1;
  EXPECT_TRUE(none(other)) << "clipping";
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kNesterov,
                                   OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    other = options, other.optimizer = kind;
    EXPECT_TRUE(none(other)) << optimizer_name(kind);
  }
  for (const char* format : {"fp32", "bfp8-text", "bfp:a=12", "bfp:block=channel"}) {
    other = options, other.format = format;
    EXPECT_TRUE(none(other)) << format;
  }
}

class Plans : public ::testing::Test {
 protected:
  Program compiled(RecomputeMode mode, int64_t batch_size, int64_t limit_bytes = 0) {
    const PlanningContext planning{&table_, 1};
    auto training = compile_training(
        graph_, {.micro_batch_size = batch_size, .exponents = ExponentMode::kExact}, planning,
        {.mode = mode, .limit_bytes = limit_bytes});
    EXPECT_TRUE(training.ok());
    return std::move(training->program);
  }

  Graph graph_ = with_large_layer();
  // Kernels that every machine has, since scratch depends on them.
  kernels::KernelTable table_ = kernels::select_kernels(Isa::kScalar);
};

TEST_F(Plans, ComputeRowsWhereThatIsFasterOrMemoryIsShort) {
  EXPECT_EQ(updates_by_rows(compiled(RecomputeMode::kNone, 1)), 0);
  EXPECT_EQ(updates_by_rows(compiled(RecomputeMode::kLiteral, 1)), 0);
  EXPECT_EQ(updates_by_rows(compiled(RecomputeMode::kAuto, 1)), 2) << "few products a sum";
  EXPECT_EQ(updates_by_rows(compiled(RecomputeMode::kAuto, 400)), 0) << "many";
  EXPECT_EQ(updates_by_rows(compiled(RecomputeMode::kAll, 400)), 2);
  const Program kept = compiled(RecomputeMode::kAuto, 400);
  const Program less = compiled(RecomputeMode::kAuto, 400, kept.arena_bytes * 3 / 4);
  EXPECT_GT(updates_by_rows(less), 0);
  EXPECT_LE(less.arena_bytes, kept.arena_bytes * 3 / 4);
}

// With many threads, the rows of all threads may take as much memory as the whole gradient.
TEST(PlansOfRows, TakeNoMoreThanWholeGradients) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const struct {
    const char *model, *format;
    int batch_size, threads;
  } kCases[] = {{"vgg8b", "bfp8", 1, 32},
                {"vgg8b", "bfp:g=8", 4, 64},
                {"resnet18", "bfp8", 1, 16},
                {"mlp", "bfp8", 1, 1}};
  for (const auto& c : kCases) {
    const Format format = *parse_format(c.format);
    const Graph graph = in_format(*build_model(c.model, {}), format);
    const auto arena_bytes = [&](RecomputeMode mode, int64_t limit_bytes) {
      const auto result = compile_training(
          graph,
          {.micro_batch_size = c.batch_size, .exponents = ExponentMode::kExact, .format = format},
          {&table, c.threads}, {.mode = mode, .limit_bytes = limit_bytes});
      EXPECT_TRUE(result.ok());
      return result->program.arena_bytes;
    };
    const int64_t whole = arena_bytes(RecomputeMode::kNone, 0);
    EXPECT_LE(arena_bytes(RecomputeMode::kAll, 0), whole) << c.model;
    EXPECT_LE(arena_bytes(RecomputeMode::kAuto, whole), whole) << c.model;
  }
}

// Nesterov's update reads whole gradients. So there is memory for sums of 64 bits.
TEST(PlansOfRows, ForSumsThatMayNotFitTakeNoMoreThanSumsOf64Bits) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const struct {
    const char* model;
    int64_t side, channels;
    int batch_size, threads;
  } kCases[] = {{"linear_blocks", 28, 1, 1024, 2},
                {"linear_blocks", 28, 1, 1024, 64},
                {"linear_blocks", 28, 1, 2048, 16},
                {"resnet50", 224, 3, 16, 16},
                {"inception_small", 224, 3, 8, 2}};
  for (const auto& c : kCases) {
    ModelOptions options;
    options.height = options.width = c.side;
    options.channels = c.channels;
    const Graph graph = *build_model(c.model, options);
    const auto arena_bytes = [&](OptimizerKind kind, RecomputeMode mode) {
      const auto result =
          compile_training(graph, {.micro_batch_size = c.batch_size, .optimizer = kind},
                           {&table, c.threads}, {.mode = mode});
      EXPECT_TRUE(result.ok());
      return result->program.arena_bytes;
    };
    for (const RecomputeMode mode : {RecomputeMode::kNone, RecomputeMode::kAll}) {
      // Apart from the space between buffers.
      EXPECT_LE(static_cast<double>(arena_bytes(OptimizerKind::kMomentum, mode)),
                1.005 * static_cast<double>(arena_bytes(OptimizerKind::kNesterov, mode)))
          << c.model << c.batch_size << c.threads;
    }
  }
}

// A gradient by rows costs little: it is chosen before values that cost much.
TEST(PlansOfRows, AreWeighedAgainstComputingValuesAgain) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  ModelOptions large;
  large.height = large.width = 224;
  large.channels = 3;
  const auto result =
      compile_training(*build_model("vgg16_bn", large),
                       {.micro_batch_size = 24, .exponents = ExponentMode::kPredicted}, {&table, 2},
                       {.mode = RecomputeMode::kAuto, .limit_bytes = int64_t{600} << 20});
  ASSERT_TRUE(result.ok());
  const auto gradient =
      std::find_if(result->decisions.begin(), result->decisions.end(),
                   [](const ValueDecision& d) { return d.name == "linear1.weights"; });
  ASSERT_NE(gradient, result->decisions.end());
  EXPECT_GT(gradient->compute_us, gradient->keep_us) << "or it costs nothing";
  EXPECT_FALSE(gradient->is_kept);
  double again_us = 0;
  for (const ValueDecision& d : result->decisions) {
    if (!d.is_gradient) again_us += d.recomputations * d.compute_us;
  }
  EXPECT_LT(again_us, 1e6) << "little else is computed again";
}

}  // namespace
}  // namespace mantissa::testing
