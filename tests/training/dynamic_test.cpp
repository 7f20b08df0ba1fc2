// Dynamic fixed point: exponents are decided in advance, from the statistics of bits. In the
// warm-up operations are run again (METHODS section 2).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "data/batches/shuffled_batches.h"
#include "run/plan/steps.h"
#include "run/settings/run_config.h"
#include "runtime/decided_exponents.h"
#include "tests/harness.h"
#include "train/pretraining.h"

namespace mantissa::testing {
namespace {

struct DynamicRun {
  std::string weights;
  int64_t saturated = 0, re_executions = 0;
  double loss = 0;  // the mean of the last ten steps
};

DynamicRun trained(const HarnessOptions& options, int steps) {
  Harness harness(options);
  DynamicRun result;
  for (int i = 0; i < steps; ++i) {
    const StepResult step = harness.step();
    result.saturated += step.saturated;
    result.re_executions += step.re_executions;
    if (i >= steps - 10) result.loss += step.loss / 10;
  }
  result.weights = harness.weights_sha256();
  return result;
}

TEST(Dynamic, WithThresholdZeroTheStartDoesNotMatter) {
  const struct {
    const char *model, *keys;
    double width;
  } kCases[] = {{"mlp", "", 1},
                {"lenet5", "g=8,", 1},
                {"resnet8", "w=4,a=4,unsigned=yes,every=2,", 0.5},
                {"mobilenet_v2", "", 0.125},
                {"inception_small", "r_max=0.01,", 0.125}};
  for (const auto& c : kCases) {
    const auto from = [&](int start) {
      const std::string format = std::string("dfp:") + c.keys + "threshold=0,warmup=3,start=";
      return trained({.model = c.model,
                      .format = format + std::to_string(start),
                      .batch_size = 8,
                      .micro_batch_size = 4,
                      .width = c.width},
                     5);
    };
    const DynamicRun expected = from(-8);
    for (const int start : {-20, -6, 0, 8}) {
      EXPECT_EQ(from(start).weights, expected.weights) << c.model << " " << start;
    }
  }
}

TEST(Dynamic, WithoutRepetitionABadStartDoesDamage) {
  const HarnessOptions good{.model = "lenet5", .format = "dfp:start=-20", .learning_rate = 0.01};
  HarnessOptions bad = good;
  bad.format = "dfp:start=-20,warmup=0,every=10";
  const DynamicRun repeated = trained(good, 30), damaged = trained(bad, 30);
  EXPECT_GT(repeated.re_executions, 0);
  EXPECT_EQ(damaged.re_executions, 0);
  EXPECT_GT(damaged.loss, repeated.loss + 0.2);
  EXPECT_GT(damaged.saturated, 100 * repeated.saturated);
}

// An operation is run again only if the exponent that its wide results call for differs from the
// exponent in use by more than the threshold (DynamicFixed, claims 1d and 2).
TEST(Dynamic, TheThresholdSaysWhatIsRunAgain) {
  const auto re_executions = [](const std::string& keys) {
    return trained({.model = "lenet5",
                    .format = "dfp:" + keys,
                    .batch_size = 128,
                    .micro_batch_size = 128},
                   20)
        .re_executions;
  };
  EXPECT_EQ(re_executions("threshold=255"), 0);
  const int64_t far = re_executions("threshold=1"), all = re_executions("threshold=0");
  EXPECT_GT(far, 0);
  EXPECT_LT(far, 30) << "a tensor of the network or an update, once each";
  EXPECT_GT(all, far);
  EXPECT_EQ(trained({.model = "resnet8", .format = "dfp:threshold=255"}, 5).re_executions, 0);
}

// Operations are run again at most once each on average, and after some steps hardly any is.
TEST(Dynamic, OperationsAreRunAgainOnceAtMost) {
  Harness harness({.model = "resnet8", .format = "dfp:start=-40,warmup=20", .first_step = -1});
  const auto& instructions = harness.program().instructions;
  const int64_t first = harness.step().re_executions;
  EXPECT_GT(first, std::ssize(instructions) / 3);
  EXPECT_LT(first, std::ssize(instructions));
  harness.train(4);
  int64_t later = 0;
  for (int i = 5; i < 20; ++i) later += harness.step().re_executions;
  EXPECT_LE(later, 10);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(harness.step().re_executions, 0);
}

// The second embodiment decides layer by layer, before an exponent is first used. The bits are the
// same as with a threshold of zero, and nothing is run again.
TEST(Dynamic, PassesDecideLayerByLayer) {
  for (const char* model : {"lenet5", "resnet8"}) {
    const auto with = [&](const std::string& keys) {
      return trained({.model = model, .format = "dfp:warmup=4,start=-20" + keys}, 6);
    };
    const DynamicRun pass = with(",decide=pass"), op = with(",threshold=0");
    EXPECT_EQ(pass.weights, op.weights) << model;
    EXPECT_EQ(pass.saturated, op.saturated) << model;
    EXPECT_EQ(pass.re_executions, 0) << model;
    EXPECT_GT(op.re_executions, 0) << model;
    EXPECT_NE(pass.weights, with("").weights) << model;
  }
}

// The next step's exponents are decided from the sum of the micro-batches' counts. So the order of
// examples, and how they are spread over micro-batches, changes nothing.
TEST(Dynamic, MicroBatchesDecideInAnyOrder) {
  for (const int steps : {1, 4}) {  // in the warm-up, and after it
    const auto after = [&](int64_t rotation) {
      Harness harness({.model = "lenet5",
                       .format = "dfp:start=-20,warmup=2",
                       .batch_size = 24,
                       .micro_batch_size = 8,
                       .first_step = -1,
                       .rotation = rotation});
      harness.train(steps);
      return harness.state_sha256();
    };
    EXPECT_EQ(after(8), after(0)) << steps;
    EXPECT_EQ(after(16), after(0)) << steps;
  }
}

// The exponents that a state has decided.
std::vector<int> decided_of(const State& state) {
  const int predictors = state.layout().predictors;
  const auto* decided = state.data<int16_t>(predictors);
  return {decided, decided + state.layout().tensors[predictors].shape.count()};
}

// In the main phase cheap counts decide as the warm-up's histogram of wide values does, with two
// exceptions. Upwards, an exponent grows by one, or at once to the one that clips nothing.
// Downwards, elements within half a unit below a power of two count as that power, so the exponent
// may stay coarser by one.
TEST(Dynamic, TheMainPhaseDecidesAsTheHistogramDoes) {
  for (const char* keys : {"", "g=8,", "r_max=0.01,"}) {
    const auto after = [&](const char* warm_up) {
      Harness harness({.model = "resnet8",
                       .format = "dfp:threshold=255," + std::string(keys) + warm_up,
                       .batch_size = 32,
                       .micro_batch_size = 32,
                       .first_step = -1});
      harness.train(8);
      std::vector<std::vector<int>> steps = {decided_of(harness.state())};
      harness.step();
      steps.push_back(decided_of(harness.state()));
      return steps;
    };
    const auto exact = after("warmup=9"), cheap = after("warmup=8");
    ASSERT_EQ(exact[0], cheap[0]) << keys;
    int64_t coarser = 0, moved = 0;
    for (size_t slot = 0; slot < exact[0].size(); ++slot) {
      const int before = exact[0][slot], wanted = exact[1][slot], found = cheap[1][slot];
      moved += wanted != before;
      if (wanted > before) {
        EXPECT_GT(found, before) << keys << slot;
        continue;
      }
      EXPECT_GE(found, wanted) << keys << slot;
      EXPECT_LE(found, std::max(wanted + 1, before - kFinerExponents)) << keys << slot;
      coarser += found != wanted;
    }
    EXPECT_GT(moved, 3) << keys;
    EXPECT_LE(coarser, 3) << keys;
  }
}

// For the loss's gradient r_max counts rows: in a row only the label's element is large.
TEST(Dynamic, OfALossRowsAreCounted) {
  const Harness harness(
      {.model = "mlp", .format = "dfp:r_max=0.01", .batch_size = 8, .micro_batch_size = 8});
  const Program& program = harness.program();
  int losses = 0, others = 0;
  for (const Exponent& exponent : program.exponents) {
    const int ppm = clipped_ppm(exponent, harness.graph(), program.options.format);
    const bool is_loss =
        exponent.owner == ExponentOwner::kGradient && harness.graph().is_loss(exponent.of);
    EXPECT_EQ(ppm, is_loss ? 1000 : 10000);
    (is_loss ? losses : others) += 1;
  }
  EXPECT_EQ(losses, 1);
  EXPECT_GT(others, 10);
}

// After the warm-up about as much is clipped as r_max says, and less if r_max is zero.
TEST(Dynamic, ClipsAsMuchAsItMay) {
  const auto clipped = [](const char* format) {
    Harness harness(
        {.model = "lenet5", .format = format, .batch_size = 64, .micro_batch_size = 64});
    harness.train(8);
    int64_t saturated = 0, requantised = 0;
    for (int i = 0; i < 12; ++i) {
      const StepResult step = harness.step();
      saturated += step.saturated;
      requantised += step.requantised;
    }
    return static_cast<double>(saturated) / static_cast<double>(requantised);
  };
  EXPECT_LT(clipped("dfp:warmup=4,r_max=0"), 1e-4);
  const double some = clipped("dfp:warmup=4,r_max=0.01");
  EXPECT_GT(some, 1e-4);
  EXPECT_LT(some, 1e-2);
}

// Between decisions exponents stay as they are. The statistics in between are part of the state.
TEST(Dynamic, DecidesEverySoManySteps) {
  Harness harness({.model = "mlp", .format = "dfp:warmup=2,every=4", .first_step = -1});
  const auto predictors = [&] {
    const auto bytes = harness.state().bytes(harness.state().layout().predictors);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto counted = [&] {
    const int bits = harness.state().layout().bits;
    const auto* statistics = harness.state().data<BitStatistics>(bits);
    const int64_t slots = harness.state().layout().tensors[bits].shape[0];
    return std::any_of(statistics, statistics + slots,
                       [](const BitStatistics& s) { return s.elements() > 0; });
  };
  harness.train(3);
  for (int round = 0; round < 3; ++round) {
    const auto before = predictors();
    EXPECT_TRUE(counted());
    for (int i = 0; i < (round == 0 ? 0 : 2); ++i) {
      harness.step();
      EXPECT_EQ(predictors(), before);
      EXPECT_TRUE(counted());
    }
    harness.step();
    EXPECT_FALSE(counted());
    harness.step();
  }
}

// A tensor that was zero comes to life, such as the first gradients that pass a scale of zero.
TEST(Dynamic, ZerosComeToLife) {
  Harness harness({.model = "resnet20", .format = "dfp:warmup=1", .first_step = -1, .width = 0.5});
  double loss = 0;
  for (int i = 0; i < 40; ++i) loss = harness.step().loss;
  EXPECT_LT(loss, 2.0);
}

// A state after pre-training in fp32; how much the next step clips; and how many exponents that
// step moves far.
struct Pretrained {
  std::string state;
  int64_t exponents = 0, moved = 0;
  int64_t saturated = 0, requantised = 0;
  double loss = 0;
};

// The batches of the pre-training.
std::unique_ptr<ShuffledBatches> batches_for(const RunConfig& config) {
  auto batches = ShuffledBatches::create(examples_of(fashion_mnist().train),
                                         {.batch_size = config.batch_size,
                                          .seed = config.seed,
                                          .total_steps = config.format.float_steps()});
  EXPECT_TRUE(batches.ok());
  return std::move(*batches);
}

Pretrained pretrained(const std::string& format) {
  const auto config = make_run_config({{"model", "lenet5"},
                                       {"data", "fashion-mnist"},
                                       {"format", format},
                                       {"batch-size", "32"},
                                       {"threads", "1"},
                                       {"out", "unused"}});
  EXPECT_TRUE(config.ok()) << config.error().message;
  const auto plan = plan_run(*config, fashion_mnist().info);
  EXPECT_TRUE(plan.ok());
  auto state = State::create(plan->layout);
  auto arena = AlignedMemory::create(plan->arena_bytes());
  ThreadPool pool(1);
  initialise(plan->graph, config->format, config->seed, *state);
  int64_t steps = 0;
  const auto status = pretrain(
      *config, *plan, *batches_for(*config), {pool, arena->span(), config->isa},
      [&](int64_t done) { return done == ++steps; }, *state);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(steps, config->format.float_steps());
  Executor executor(plan->graph, plan->training, *state, arena->span(), pool, config->isa);
  StepScalars scalars = step_scalars(*config);
  Pretrained result{.state = state->sha256(StateGroup::kPredictor)};
  const int predictors = plan->layout.predictors;
  const auto count = static_cast<size_t>(plan->layout.tensors[predictors].shape.count());
  const auto* decided = state->data<int16_t>(predictors);
  const std::vector<int16_t> before(decided, decided + count);
  const ExampleSet& images = fashion_mnist().train;
  const auto step = executor.train_step(
      std::array<const void*, 2>{images.pixels().data(), first_labels(images, 32).data()}, scalars);
  EXPECT_TRUE(step.ok());
  // Velocities start at zero, and are small in the first step.
  result.exponents = exponent_slots(plan->graph).velocity_predictor(0);
  for (int64_t i = 0; i < result.exponents; ++i)
    result.moved += std::abs(decided[i] - before[i]) > 1;
  result.saturated = step->saturated;
  result.requantised = step->requantised;
  result.loss = step->loss;
  return result;
}

TEST(FloatPretraining, GivesWeightsAndExponents) {
  for (const std::string keys : {"", "g=8,", "linear=16,", "w=4,"}) {
    const auto with = [&](const char* rest) { return pretrained("dfp:" + keys + rest); };
    const Pretrained one = with("pretraining=float,warmup=1");
    const Pretrained many = with("pretraining=float,warmup=30");
    EXPECT_LT(many.loss, one.loss - 0.5) << keys << ": trained";
    for (const Pretrained& p : {one, many}) {
      EXPECT_LT(p.saturated, p.requantised / 200) << keys << ": exponents fit at once";
      EXPECT_LT(p.moved, p.exponents / 10) << keys << ": and are no coarser than they need be";
    }
    EXPECT_EQ(with("pretraining=float,warmup=1,start=8").saturated, one.saturated) << keys;
    EXPECT_EQ(with("pretraining=float,warmup=1").state, one.state) << keys;
  }
}

// How a pre-training of a run with these settings ends.
Status pretraining_of(std::map<std::string, std::string> settings,
                      const std::function<bool(int64_t)>& report) {
  settings.insert({{"data", "fashion-mnist"}, {"format", "dfp:pretraining=float"}});
  const auto config = make_run_config(settings);
  const auto plan = plan_run(*config, fashion_mnist().info);
  auto state = State::create(plan->layout);
  auto arena = AlignedMemory::create(plan->arena_bytes());
  ThreadPool pool(config->threads);
  return pretrain(*config, *plan, *batches_for(*config), {pool, arena->span(), config->isa}, report,
                  *state);
}

// A parameter that is not trained keeps its first mantissas and exponent.
TEST(FloatPretraining, LeavesUntrainedParametersAsTheyAre) {
  const auto config = make_run_config({{"model", "lenet5"},
                                       {"data", "fashion-mnist"},
                                       {"format", "dfp:pretraining=float,warmup=3"},
                                       {"freeze", "conv1.*,linear2.*"},
                                       {"batch-size", "32"},
                                       {"threads", "1"},
                                       {"out", "unused"}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto plan = plan_run(*config, fashion_mnist().info);
  ASSERT_TRUE(plan.ok());
  auto state = State::create(plan->layout), before = State::create(plan->layout);
  auto arena = AlignedMemory::create(plan->arena_bytes());
  ThreadPool pool(1);
  initialise(plan->graph, config->format, config->seed, *before);
  initialise(plan->graph, config->format, config->seed, *state);
  ASSERT_TRUE(pretrain(
                  *config, *plan, *batches_for(*config), {pool, arena->span(), config->isa},
                  [](int64_t) { return true; }, *state)
                  .ok());
  int trained = 0, untrained = 0;
  for (size_t i = 0; i < plan->graph.parameters.size(); ++i) {
    const Parameter& parameter = plan->graph.parameters[i];
    const auto numbers = parameter_numbers(*state, static_cast<int>(i));
    const bool is_same = numbers == parameter_numbers(*before, static_cast<int>(i));
    EXPECT_EQ(is_same, !parameter.trained) << parameter.name;
    ++(parameter.trained ? trained : untrained);
  }
  EXPECT_EQ(untrained, 4);
  EXPECT_GT(trained, 4);
}

// Steps after the end of the run have a learning rate that no step of the run has.
TEST(FloatPretraining, MayBeLongerThanTheRun) {
  for (const char* schedule : {"one-cycle", "cosine", "step"}) {
    const auto status = pretraining_of(
        {{"model", "lenet5"}, {"lr-schedule", schedule}, {"batch-size", "32"}, {"steps", "5"}},
        [](int64_t) { return true; });
    EXPECT_TRUE(status.ok()) << schedule << ": " << status.error().message;
  }
}

TEST(FloatPretraining, CanBeInterrupted) {
  const auto status = pretraining_of({{"model", "mlp"}}, [](int64_t done) { return done < 3; });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInterrupted);
}

}  // namespace
}  // namespace mantissa::testing
