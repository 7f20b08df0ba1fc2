// Invariant 1: the same bits over threads, instruction sets, arenas and ways to hold micro-batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int kSteps = 30;

std::string hash_after(const HarnessOptions& options, int steps = kSteps) {
  Harness harness(options);
  harness.train(steps);
  return harness.state_sha256();
}

std::vector<Isa> instruction_sets() {
  std::vector<Isa> sets;
  for (const Isa isa : kAllIsas) {
    if (is_supported(isa)) sets.push_back(isa);
  }
  return sets;
}

struct Case {
  const char* model;
  const char* format;
  int steps = kSteps;
  double width = 1;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model << ' ' << c.format; }

class SameBits : public ::testing::TestWithParam<Case> {};

TEST_P(SameBits, OverThreadsAndInstructionSets) {
  const auto [model, format, steps, width] = GetParam();
  // The slowest set runs once, on several threads.
  const std::string expected = hash_after(
      {.model = model, .format = format, .threads = 3, .isa = Isa::kScalar, .width = width}, steps);
  for (const Isa isa : instruction_sets()) {
    for (const int threads : {1, 2, 3, 5, 8}) {
      // All sizes of the pool for the fastest set; for the slower ones an even and an odd one.
      if (isa == Isa::kScalar && isa != best_isa()) continue;
      if (isa != best_isa() && threads != 3 && threads != 2) continue;
      const HarnessOptions options{
          .model = model, .format = format, .threads = threads, .isa = isa, .width = width};
      EXPECT_EQ(hash_after(options, steps), expected)
          << isa_name(isa) << ", " << threads << " threads";
    }
  }
  if (!is_supported(Isa::kAvx512Vnni)) GTEST_SKIP() << "this CPU has no AVX-512 VNNI";
}

// One case of each kind; tests/slow.txt names the others.
INSTANTIATE_TEST_SUITE_P(Networks, SameBits,
                         ::testing::Values(Case{"mlp", "bfp8"}, Case{"resnet8", "bfp8", 4},
                                           Case{"lenet5", "bfp:acc=0,round=stochastic", 4},
                                           Case{"resnet8", "bfp8-text", 3},
                                           Case{"lenet5", "bfp:w=4,a=4,unsigned=yes", 8},
                                           Case{"lenet5", "bfp:block=channel", 3},
                                           Case{"mobilenet_v2", "bfp:inversion=yes", 2, 0.125},
                                           Case{"lenet5", "dfp:g=8,warmup=3", 8},
                                           Case{"inception_small", "bfp:w=10,a=9,g=8", 1, 0.125}));

INSTANTIATE_TEST_SUITE_P(
    MoreNetworks, SameBits,
    ::testing::Values(
        Case{"mlp", "bfp:g=8,gr=stochastic"}, Case{"lenet5", "bfp:g=8", 8},
        Case{"lenet5", "bfp:ge=exact,g=6,gr=stochastic", 4},
        Case{"mobilenet_v2", "bfp8-text", 1, 0.125},
        Case{"resnet8", "bfp:g=8,gw=16,gr=stochastic", 2}, Case{"lenet5", "bfp:w=4,a=3,bias=8", 8},
        Case{"resnet8", "bfp:a=7,unsigned=yes", 2},
        Case{"resnet8", "bfp:w=4,a=4,linear=8,unsigned=yes,block=channel", 2},
        Case{"mobilenet_v2", "bfp:unsigned=yes", 1, 0.125}, Case{"resnet8", "bfp:w=2,a=4", 3},
        Case{"mobilenet_blocks", "bfp8", 1}, Case{"mobilenet_blocks", "bfp:g=8,gr=stochastic", 1},
        Case{"resnet8", "bfp:g=8,gr=stochastic", 3}, Case{"mobilenet_v2", "bfp8", 2, 0.125},
        Case{"mobilenet_v2", "bfp:inversion=yes,g=8,gr=stochastic,unsigned=yes", 1, 0.125},
        Case{"mobilenet_v2", "dfp:inversion=yes,warmup=1", 2, 0.125},
        Case{"mobilenet_v2", "bfp:inversion=yes,a=12,linear=16", 1, 0.125},
        Case{"resnet8", "bfp:inversion=yes", 2}, Case{"resnet8", "dfp:inversion=yes,warmup=1", 2},
        Case{"vgg8b", "bfp:inversion=yes,linear=16", 2, 0.125},
        Case{"inception_small", "bfp:inversion=yes,g=8,gr=stochastic", 2, 0.25},
        Case{"resnet8", "bfp:inversion=yes,a=7,unsigned=yes", 2},
        Case{"mobilenet_v2", "bfp:g=6,gr=stochastic", 2, 0.125},
        Case{"inception_small", "bfp8", 2, 0.25}, Case{"inception_small", "bfp:g=8", 2, 0.25},
        Case{"inception_small", "bfp:g=6,gr=stochastic", 2, 0.25},
        Case{"squeezenet", "bfp:g=12", 2, 0.25}, Case{"resnet8", "bfp:w=4,g=8,block=channel", 1},
        Case{"resnet8", "bfp8-portable", 2},
        Case{"mobilenet_v2", "bfp:w=7,block=channel,ties=up", 1, 0.25},
        Case{"mobilenet_v2", "bfp:block=channel", 1, 0.125},
        Case{"resnet8", "bfp:linear=16,gw=32", 1}, Case{"lenet5", "bfp:w=16,a=16", 1},
        Case{"mobilenet_v2", "bfp:a=12,linear=16", 1, 0.125}, Case{"mlp", "dfp8"},
        Case{"resnet8", "dfp:warmup=2,every=2", 5},
        Case{"mobilenet_v2", "dfp:g=8,warmup=1", 2, 0.125},
        Case{"resnet8", "dfp:w=4,a=4,unsigned=yes,linear=8,g=8,gr=stochastic,warmup=1", 2},
        Case{"lenet5", "dfp:w=16,a=16,warmup=1", 2}, Case{"resnet8", "dfp:decide=pass", 2},
        Case{"resnet8", "dfp:warmup=0,start=-20,g=8", 3}));

TEST(SameBits, OptimizersOverThreadsAndInstructionSets) {
  for (const Optimizer& row : optimizers()) {
    for (const double clip_norm : {0.0, 0.3}) {
      SCOPED_TRACE(std::string(row.name) + " clip " + std::to_string(clip_norm));
      HarnessOptions options{.model = "lenet5",
                             .optimizer = row.kind,
                             .micro_batch_size = 8,
                             .threads = 3,
                             .isa = Isa::kScalar,
                             .clip_norm = clip_norm};
      const std::string expected = hash_after(options, 4);
      for (const Isa isa : instruction_sets()) {
        for (const int threads : {1, 3}) {
          if (isa == Isa::kScalar && isa != best_isa()) continue;  // the expected run
          options.isa = isa;
          options.threads = threads;
          EXPECT_EQ(hash_after(options, 4), expected) << isa_name(isa) << " " << threads;
        }
      }
    }
  }
}

// No gradient reaches this norm: updates move to the end of the step, and nothing else changes.
TEST(SameBits, UpdatesAtOnceOrAfterTheNorm) {
  for (const OptimizerKind kind : {OptimizerKind::kMomentum, OptimizerKind::kAdam}) {
    HarnessOptions options{.model = "resnet8", .optimizer = kind};
    const std::string expected = hash_after(options, 4);
    options.clip_norm = 1e9;
    EXPECT_EQ(hash_after(options, 4), expected) << optimizer_name(kind);
    options.clip_norm = 0.1;
    EXPECT_NE(hash_after(options, 4), expected) << optimizer_name(kind);
  }
}

TEST(SameBits, TwoMicroBatchesInOneThreadOrTwo) {
  for (const char* format : {"bfp8", "bfp8-text", "dfp:warmup=3"}) {
    for (const char* model : {"mlp", "lenet5", "resnet8"}) {
      const HarnessOptions one{
          .model = model, .format = format, .micro_batch_size = 8, .threads = 1};
      HarnessOptions two = one;
      two.threads = 2;
      EXPECT_EQ(hash_after(one), hash_after(two)) << model << " " << format;
    }
  }
}

// Two harnesses of one step each, with predicted and exact exponents, must report the same in
// everything but the number of wrong predictions. Returns this number.
int64_t expect_equal_steps(Harness& predicted, Harness& exact) {
  const StepResult one = predicted.step(), two = exact.step();
  EXPECT_EQ(one.loss_q24, two.loss_q24);
  EXPECT_EQ(one.saturated, two.saturated);
  EXPECT_EQ(one.requantised, two.requantised);
  EXPECT_EQ(one.guard_violations, two.guard_violations);
  EXPECT_EQ(one.re_executions, two.re_executions);
  EXPECT_EQ(two.mispredictions, 0);
  EXPECT_EQ(predicted.state_sha256(), exact.state_sha256());
  return one.mispredictions;
}

// The share of values whose exponents were mispredicted, in steps that gave the same bits. The
// first step does not count: nothing was there to predict from.
double share_of_mispredictions(Harness& predicted, Harness& exact, int steps) {
  EXPECT_GT(expect_equal_steps(predicted, exact), 0);
  int64_t wrong = 0;
  for (int i = 0; i < steps; ++i) wrong += expect_equal_steps(predicted, exact);
  return static_cast<double>(wrong) / steps / static_cast<double>(predicted.graph().values.size());
}

// Predicting an exponent may cost time, never a bit.
TEST(SameBits, PredictedOrExactExponents) {
  for (const char* model : {"mlp", "lenet5", "resnet8", "inception_small"}) {
    for (const char* gradients : {"g=16", "g=8", "g=12", "g=6,gr=stochastic"}) {
      SCOPED_TRACE(std::string(model) + " " + gradients);
      HarnessOptions options{.model = model, .format = std::string("bfp:") + gradients};
      if (options.model == "inception_small") options.width = 0.25;
      Harness predicted(options);
      options.format += ",exponents=exact";
      Harness exact(options);
      EXPECT_LT(share_of_mispredictions(predicted, exact, 9), 0.5);
    }
  }
}

// Values with an exponent per channel take two passes, which hold sums for some images at a time.
// Batches of resnet8 that are one chunk, and several chunks with a smaller last one.
TEST(SameBits, PredictedOrExactExponentsOfGuardedValues) {
  for (const int64_t micro_batch_size : {10, 25, 50}) {
    SCOPED_TRACE(micro_batch_size);
    HarnessOptions options{.model = "resnet8",
                           .format = "bfp8",
                           .batch_size = 50,
                           .micro_batch_size = micro_batch_size,
                           .threads = 2};
    Harness predicted(options);
    options.format = "bfp:exponents=exact";
    Harness exact(options);
    for (Harness* harness : {&predicted, &exact}) {
      const auto guards = harness->state().bytes(harness->state().layout().guards);
      std::fill(guards.begin(), guards.end(), std::byte{1});
    }
    for (int i = 0; i < 3; ++i) expect_equal_steps(predicted, exact);
  }
}

// Sums of channels with exponents of their own are held in chunks as well, narrowed as they come.
TEST(SameBits, PredictedOrExactExponentsOfChannelsThatDiffer) {
  for (const int64_t micro_batch_size : {10, 25}) {
    SCOPED_TRACE(micro_batch_size);
    HarnessOptions options{.model = "resnet8",
                           .format = "bfp:block=channel",
                           .batch_size = 50,
                           .micro_batch_size = micro_batch_size,
                           .threads = 2};
    Harness predicted(options);
    options.format += ",exponents=exact";
    Harness exact(options);
    EXPECT_LT(share_of_mispredictions(predicted, exact, 3), 1);
  }
}

TEST(SameBits, OptimizersWithExponentsPerChannel) {
  for (const Optimizer& row : optimizers()) {
    HarnessOptions options{.model = "lenet5",
                           .format = "bfp:block=channel",
                           .optimizer = row.kind,
                           .micro_batch_size = 8,
                           .isa = Isa::kScalar,
                           .clip_norm = 0.3};
    const std::string expected = hash_after(options, 2);
    options.isa = best_isa();
    for (const int threads : {1, 3}) {
      options.threads = threads;
      EXPECT_EQ(hash_after(options, 2), expected) << row.name << " " << threads;
    }
  }
}

TEST(SameBits, StochasticRoundingDependsOnTheStep) {
  const struct {
    const char *stochastic, *nearest;
  } kCases[] = {{"bfp:g=6,gr=stochastic", "bfp:g=6"}, {"bfp:acc=2,round=stochastic", "bfp:acc=2"}};
  for (const auto& [stochastic, nearest] : kCases) {
    SCOPED_TRACE(stochastic);
    HarnessOptions options{.model = "mlp", .format = stochastic};
    const std::string expected = hash_after(options, 1);
    options.first_step = 1;
    EXPECT_NE(hash_after(options, 1), expected);
    options.format = nearest;  // nothing else depends on it
    const std::string other = hash_after(options, 1);
    options.first_step = 0;
    EXPECT_EQ(hash_after(options, 1), other);
  }
}

// A wider gradient for grad_weights changes the weights. ReLU and maximum pooling pass on gradients
// of g bits. So only the loss, batch norm and sums have more bits to give (BlockFloat
// [0117]-[0123]).
TEST(SameBits, WiderGradientsForGradWeights) {
  for (const char* model : {"lenet5", "resnet8"}) {
    const auto after = [&](const char* format) {
      return hash_after({.model = model, .format = format}, 3);
    };
    EXPECT_NE(after("bfp:g=8,gw=16"), after("bfp:g=8")) << model;
    EXPECT_NE(after("bfp:g=8,gw=32"), after("bfp:g=8,gw=16")) << model;
    EXPECT_NE(after("bfp:gw=32"), after("bfp8")) << model;
  }
}

TEST(SameBits, OtherSeedsAndFormatsDiffer) {
  const std::string expected = hash_after({.model = "mlp"}, 3);
  EXPECT_NE(hash_after({.model = "mlp", .seed = 2}, 3), expected);
  EXPECT_NE(hash_after({.model = "mlp", .format = "bfp:acc=8"}, 3), expected);
  EXPECT_NE(hash_after({.model = "mlp", .optimizer = OptimizerKind::kSgd}, 3), expected);
}

}  // namespace
}  // namespace mantissa::testing
