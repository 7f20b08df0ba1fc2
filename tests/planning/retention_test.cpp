// The choice of values to keep and values to compute again: within the limit, and as fast as
// possible.
#include "plan/retention/retention.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "kernels/kernel_table.h"
#include "models/models.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/retention/compile_training.h"
#include "plan/retention/exact_retention.h"
#include "plan/retention/retention_evaluator.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"
#include "tests/harness.h"

namespace mantissa {
namespace {

struct Planned {
  Graph graph;
  ProgramOptions options;
  kernels::KernelTable table = kernels::select_kernels(best_isa());

  explicit Planned(const char* model, int size = 28, int64_t batch = 8,
                   const char* format_text = "bfp8") {
    ModelOptions shape;
    shape.height = shape.width = size;
    const Format format = *parse_format(format_text);
    graph = in_format(*build_model(model, shape), format);
    options = {
        .micro_batch_size = batch, .exponents = training_exponents(format), .format = format};
  }
  PlanningContext planning() const { return {&table, 2}; }
  RecomputeModel model(int64_t instruction_bytes = 0, int64_t least_arena_bytes = 0) const {
    return {graph,
            *compile(graph, options, planning()),
            MachineProfile{},
            2,
            instruction_bytes,
            least_arena_bytes};
  }
};

constexpr int64_t kNoLimit = INT64_MAX;

struct Best {
  double nanoseconds = 1e300;  // of choices within the limit
  int64_t bytes = kNoLimit;    // whatever the limit
};

// The best of all choices.
Best best_of_all(const RecomputeModel& model, int64_t limit) {
  const size_t values = model.values().size();
  std::vector<Retention> choice(values, Retention::kKept);
  RetentionEvaluator evaluator(model);
  Best best;
  for (;;) {
    evaluator.nanoseconds(choice);
    const auto outcome = evaluator.outcome(limit);
    best.bytes = std::min(best.bytes, outcome.total_bytes);
    if (outcome.excess == 0) best.nanoseconds = std::min(best.nanoseconds, outcome.nanoseconds);
    size_t v = 0;
    for (; v < values; ++v) {
      if (!model.values()[v].may_go) continue;
      choice[v] = static_cast<Retention>((static_cast<int>(choice[v]) + 1) % 3);
      if (choice[v] != Retention::kKept) break;
    }
    if (v == values) return best;
  }
}

TEST(Retention, IsTheFastestOfAllOnChains) {
  for (const char* name : {"mlp", "lenet5"}) {
    const Planned planned(name);
    const RecomputeModel model = planned.model();
    const int64_t most = model.evaluate(keep_all(model), kNoLimit).peak_bytes;
    const int64_t least = choose_smallest(model).outcome.peak_bytes;
    for (int i = 0; i <= 8; ++i) {
      const int64_t limit = least + (most - least) * i / 8;
      const RetentionPlan plan = choose_within(model, limit);
      EXPECT_LE(plan.outcome.peak_bytes, limit) << name;
      const Best best = best_of_all(model, limit);
      EXPECT_EQ(plan.outcome.nanoseconds, best.nanoseconds) << name << " " << i;
      const auto exact = improve_exactly(model, limit, choose_smallest(model).choice);
      ASSERT_TRUE(exact.ok()) << exact.error().message;
      EXPECT_LE(exact->outcome.nanoseconds, (1 + 2 * kExactGap) * best.nanoseconds)
          << name << " " << i;
    }
    const auto smallest = choose_exactly_smallest(model);
    ASSERT_TRUE(smallest.ok()) << smallest.error().message;
    EXPECT_EQ(smallest->outcome.total_bytes, best_of_all(model, 0).bytes) << name;
    EXPECT_LE(choose_smallest(model).outcome.total_bytes,
              smallest->outcome.total_bytes * 102 / 100);
  }
}

// The solver starts from a slow plan, so that it has to find the fast one itself. More budgets are
// in tests/long/exact_plans.
TEST(Retention, TakesAtMostTwoPercentLongerThanTheExactPlan) {
  const struct {
    const char *model, *format;
    int64_t instruction_bytes;
  } kCases[] = {{"vgg8b", "bfp8", 0},
                {"vgg16_bn", "bfp8", 0},
                {"resnet8", "bfp8", 8192},
                {"resnet8", "dfp:decide=pass", 0},
                {"resnet8", "fp32", 0}};
  for (const auto& c : kCases) {
    const Planned planned(c.model, 32, 8, c.format);
    const RecomputeModel model = planned.model(c.instruction_bytes);
    const int64_t most = model.evaluate(keep_all(model), kNoLimit).total_bytes;
    const RetentionPlan least = choose_smallest(model);
    for (const double part : {0.5, 0.8}) {
      const int64_t above = most - least.outcome.total_bytes;
      const auto limit =
          least.outcome.total_bytes + static_cast<int64_t>(part * static_cast<double>(above));
      const auto exact = improve_exactly(model, limit, least.choice);
      ASSERT_TRUE(exact.ok()) << exact.error().message;
      const RetentionPlan found = choose_within(model, limit);
      EXPECT_EQ(exact->outcome.excess, 0);
      EXPECT_LE(exact->outcome.nanoseconds, (1 + 2 * kExactGap) * found.outcome.nanoseconds)
          << c.model << " " << c.format << " " << part;
      EXPECT_LE(found.outcome.nanoseconds, 1.02 * exact->outcome.nanoseconds)
          << c.model << " " << c.format << " " << part;
      const RetentionPlan near =
          choose_near(model, limit, choose_within(model, limit + limit / 100).choice);
      EXPECT_EQ(near.outcome.excess, 0);
      EXPECT_LE(near.outcome.nanoseconds, 1.02 * exact->outcome.nanoseconds)
          << c.model << " " << c.format << " " << part;
    }
  }
}

// There is no search if no choice can be within the limit.
TEST(Retention, IsTheSmallestWhereNothingFits) {
  const Planned planned("resnet8");
  const RecomputeModel model = planned.model();
  const RetentionPlan smallest = choose_smallest(model);
  EXPECT_LE(model.bound_bytes(), smallest.outcome.total_bytes);
  for (const int64_t limit : {int64_t{1}, model.bound_bytes() - 1}) {
    for (const RetentionPlan& plan :
         {choose_within(model, limit), choose_near(model, limit, keep_all(model))}) {
      EXPECT_EQ(plan.choice, smallest.choice);
      EXPECT_EQ(plan.outcome.total_bytes, smallest.outcome.total_bytes);
      EXPECT_GT(plan.outcome.excess, 0);
    }
  }
}

TEST(Retention, StaysWithinAnyLimitFromTheSmallestOn) {
  for (const char* name : {"resnet20", "mobilenet_v2", "inception_small", "vgg16_bn"}) {
    const Planned planned(name);
    const RecomputeModel model = planned.model();
    const auto all = model.evaluate(keep_all(model), kNoLimit);
    const int64_t least = choose_smallest(model).outcome.peak_bytes;
    EXPECT_LT(least, all.peak_bytes);
    double before = 1e300;
    for (const int i : {0, 1, 2, 4, 7, 10}) {  // near the least it is hardest
      const int64_t limit = least + (all.peak_bytes - least) * i / 10;
      const auto outcome = choose_within(model, limit).outcome;
      EXPECT_LE(outcome.peak_bytes, limit) << name << " " << i;
      EXPECT_LE(outcome.nanoseconds, 1.02 * before) << name << ": more memory is not slower";
      before = outcome.nanoseconds;
    }
    EXPECT_LE(before, all.nanoseconds);
    EXPECT_GT(choose_within(model, least / 2).outcome.peak_bytes, least / 2);
  }
}

TEST(Retention, ProgramsFitTheirArena) {
  for (const char* name : {"resnet20", "mobilenet_v2", "inception_small", "squeezenet"}) {
    const Planned planned(name);
    const auto compiled = [&](RecomputeMode mode, int64_t limit) {
      auto program = compile_training(planned.graph, planned.options, planned.planning(),
                                      {.mode = mode, .limit_bytes = limit});
      EXPECT_TRUE(program.ok());
      return std::move(program->program);
    };
    const int64_t most = compiled(RecomputeMode::kNone, 0).arena_bytes;
    const int64_t least = compiled(RecomputeMode::kAll, 0).arena_bytes;
    EXPECT_LT(least, most * 3 / 4) << name;
    for (const double part : {0.05, 0.3, 0.6, 0.9}) {
      const auto limit = least + static_cast<int64_t>(part * static_cast<double>(most - least));
      const Program program = compiled(RecomputeMode::kAuto, limit);
      EXPECT_LE(program.arena_bytes, limit) << name << " " << part;
      EXPECT_LE(program.arena_bytes, program.live_bytes * 21 / 20) << name;
    }
    EXPECT_LE(compiled(RecomputeMode::kAuto, 0).arena_bytes, most);
    EXPECT_EQ(compiled(RecomputeMode::kAuto, 1).arena_bytes, least) << "as near as can be";
  }
}

// A search tries changes of each value, and of each pair of values. It does not go through the
// whole step for each of these.
TEST(Retention, AThousandConvolutionsArePlannedInSeconds) {
  GraphBuilder builder("convolutions", Shape{28, 28, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  for (int i = 0; i < 1000; ++i) {
    value = builder.add(ops::kConvolution, "conv" + std::to_string(i), {value},
                        {{"channels", 8}, {"padding", 1}});
    value = builder.add(ops::kRelu, "relu" + std::to_string(i), {value});
  }
  value = builder.add(ops::kGlobalAveragePool, "average", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}});
  const Format format = *parse_format("bfp8");
  const Graph graph = in_format(testing::with_loss(*builder.finish(value)), format);
  const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
  const ProgramOptions options = {
      .micro_batch_size = 8, .exponents = training_exponents(format), .format = format};
  const auto planned = [&](RecomputeMode mode, int64_t limit) {
    return compile_training(graph, options, {&table, 2}, {.mode = mode, .limit_bytes = limit});
  };
  const auto start = std::chrono::steady_clock::now();
  const auto kept = planned(RecomputeMode::kNone, 0);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  const int64_t limit = kept->program.arena_bytes * 6 / 10;
  const auto within = planned(RecomputeMode::kAuto, limit);
  ASSERT_TRUE(within.ok()) << within.error().message;
  EXPECT_LE(within->program.arena_bytes, limit);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

// A machine whose memory is slow, and one whose arithmetic is.
TEST(Retention, LiterallyAndWithoutALimitTheMachineDecides) {
  const Planned planned("resnet20", 112);
  const auto arena = [&](RecomputeMode mode, const MachineProfile& profile) {
    return compile_training(planned.graph, planned.options, planned.planning(),
                            {.mode = mode, .limit_bytes = 0, .profile = profile})
        ->program.arena_bytes;
  };
  MachineProfile slow_memory, slow_arithmetic;
  slow_memory.tiers[2].bytes_per_ns = 0.1;
  slow_arithmetic.elements_per_ns = slow_arithmetic.norm_elements_per_ns =
      slow_arithmetic.dense_macs_per_ns = 0.01;
  for (const RecomputeMode mode : {RecomputeMode::kAuto, RecomputeMode::kLiteral}) {
    const int64_t kept = arena(RecomputeMode::kNone, slow_memory);
    EXPECT_LT(arena(mode, slow_memory), kept);
    EXPECT_EQ(arena(mode, slow_arithmetic), kept);
  }
}

// A value, and the choice for it.
struct Chosen {
  RecomputeModel::Value value;
  Retention retention;
};
std::map<std::string, Chosen> by_name(const RecomputeModel& model,
                                      const std::vector<Retention>& choice) {
  std::map<std::string, Chosen> found;
  for (size_t v = 0; v < choice.size(); ++v) {
    found[model.values()[v].name] = {model.values()[v], choice[v]};
  }
  return found;
}

// Recompute [0011]-[0015]: an activation is not stored if it would lie in memory while its source,
// the output of the convolution or of the batch norm, lies on the chip.
TEST(Retention, LiterallyActivationsGoWhoseInputsLieNearer) {
  for (const auto& [format, input] : {std::pair{"bfp8", "conv1"}, {"bfp:inversion=yes", "norm1"}}) {
    SCOPED_TRACE(format);
    const Planned planned("vgg8b", 28, 8, format);
    const Program kept = *compile(planned.graph, planned.options, planned.planning());
    const auto choose = [&](const MachineProfile& profile) {
      const RecomputeModel model(planned.graph, kept, profile, 2);
      return by_name(model, choose_literally(model).choice);
    };
    MachineProfile profile;
    profile.norm_elements_per_ns = profile.elements_per_ns = 50;
    profile.tiers[2].bytes_per_ns = 5;
    const auto cached = choose(profile);
    const int64_t normalised = cached.at("normalise").value.bytes;
    const int64_t activation = cached.at("relu1").value.bytes;
    ASSERT_EQ(cached.at(input).value.bytes, activation);

    // The activation is used last and needed first. So in caches it never lies further away.
    EXPECT_EQ(cached.at("relu1").retention, Retention::kKept);

    profile.on_chip = {normalised + activation + activation / 2, 100};
    const auto placed = choose(profile);
    const double load_input = placed.at(input).value.keep_ns / 2;
    const double load = placed.at("relu1").value.keep_ns / 2;
    EXPECT_EQ(placed.at(input).retention, Retention::kKept);
    EXPECT_EQ(placed.at("relu1").retention, Retention::kRecomputed);
    EXPECT_LT(load_input + placed.at("relu1").value.near_compute_ns, load);

    // Not if both are on the chip, and not if computing takes longer than the time that it saves.
    profile.on_chip.bytes += activation;
    EXPECT_EQ(choose(profile).at("relu1").retention, Retention::kKept);
    profile.on_chip.bytes -= activation;
    profile.tiers[2].bytes_per_ns = 90;
    EXPECT_EQ(choose(profile).at("relu1").retention, Retention::kKept);
  }
}

// An activation and its input have the same size. The rule asks for more than any cache gives.
TEST(Retention, LiterallyCachesKeepWhatIsAsLargeAsItsInput) {
  for (const char* format : {"bfp8", "bfp:inversion=yes"}) {
    for (const char* name : {"vgg8b", "resnet8", "inception_small"}) {
      const Planned planned(name, 28, 8, format);
      const Program kept = *compile(planned.graph, planned.options, planned.planning());
      for (int size = 8; size < 30; ++size) {
        MachineProfile profile;
        profile.tiers = {
            {{int64_t{1} << size, 1e6}, {int64_t{1} << (size + 2), 1e3}, {INT64_MAX, 0.1}}};
        profile.norm_elements_per_ns = profile.elements_per_ns = 1e6;
        const RecomputeModel model(planned.graph, kept, profile, 2);
        const std::vector<Retention> choice = choose_literally(model).choice;
        for (size_t v = 0; v < choice.size(); ++v) {
          const RecomputeModel::Value& value = model.values()[v];
          if (!value.read_backward || value.name.find("relu") == std::string::npos) continue;
          EXPECT_EQ(choice[v], Retention::kKept) << name << " " << value.name << " " << size;
        }
      }
    }
  }
}

// Whole runs: their memory besides the arena counts as well.
TEST(Budget, IsMetFromTheLeastOn) {
  const struct {
    const char *model, *batch, *format;
  } kCases[] = {{"lenet5", "32", "bfp8"},    {"resnet20", "4", "bfp8"},
                {"squeezenet", "8", "bfp8"}, {"resnet8", "64", "dfp:pretraining=float"},
                {"resnet20", "32", "fp32"},  {"mobilenet_v2", "8", "dfp8"}};
  for (const auto& c : kCases) {
    const auto planned = [&](const char* mode, int64_t budget) {
      std::map<std::string, std::string> settings = {{"model", c.model},
                                                     {"batch-size", c.batch},
                                                     {"format", c.format},
                                                     {"threads", "2"},
                                                     {"recompute", mode}};
      if (budget > 0) settings["memory-budget"] = std::to_string(budget) + "B";
      return plan_run(*make_run_config(settings), testing::fashion_mnist().info)
          ->memory.peak_bytes();
    };
    const int64_t most = planned("none", 0), least = planned("all", 0);
    EXPECT_LE(least, most) << c.model;
    for (const int i : {0, 1, 2, 4, 7, 12}) {
      const int64_t budget = least + (most - least) * i / 12;
      EXPECT_LE(planned("auto", budget), budget) << c.model << " " << c.format << " " << i;
    }
    EXPECT_GT(planned("auto", least / 2), least / 2);
  }
}

// If other programs need an arena as large, instructions that make it smaller only take memory of
// their own.
TEST(Retention, ComputesNothingAgainForAnArenaThatIsThereAnyway) {
  const Planned planned("resnet8");
  constexpr int64_t kInstruction = 1000;
  const RecomputeModel alone = planned.model(kInstruction);
  const RetentionPlan smallest_alone = choose_smallest(alone);
  const int64_t most = alone.evaluate(keep_all(alone), kNoLimit).peak_bytes;
  const int64_t arena = (most + smallest_alone.outcome.peak_bytes) / 2;
  const RecomputeModel model = planned.model(kInstruction, arena);
  const RetentionPlan smallest = choose_smallest(model);
  EXPECT_EQ(smallest.outcome.peak_bytes, arena);
  EXPECT_LT(smallest.outcome.recomputations, smallest_alone.outcome.recomputations);
  EXPECT_EQ(choose_within(model, smallest.outcome.total_bytes).outcome.excess, 0);
}

}  // namespace
}  // namespace mantissa
