// Stages under limits of memory: the values that they keep fit, and they compute no more again than
// that requires.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/kernel_table.h"
#include "models/models.h"
#include "plan/passes/network_format.h"
#include "plan/programs/verify.h"
#include "plan/retention/recompute_model.h"
#include "plan/stages/compile_stages.h"
#include "plan/stages/stage_layers.h"

namespace mantissa {
namespace {

using pipeline::FlushForm;
using pipeline::Mode;

// A network divided, to be compiled under several limits.
struct Divided {
  Graph graph;
  StateLayout layout;
  Program kept;
  pipeline::Schedule schedule;
  std::vector<int> stage_of;
  kernels::KernelTable table = kernels::select_kernels(best_isa());

  Divided(const char* model, const char* format_text, const pipeline::Options& options) {
    ModelOptions shape;
    shape.height = shape.width = 32;
    const Format format = *parse_format(format_text);
    graph = in_format(*build_model(model, shape), format);
    layout = training_layout(graph, format, OptimizerKind::kMomentum);
    kept = *compile(graph,
                    {.micro_batch_size = 8,
                     .micro_batches = options.accumulate,
                     .exponents = training_exponents(format),
                     .format = format},
                    planning());
    schedule = *pipeline::make_schedule(options);
    const StageLayers layers = stage_layers(graph, kept, layout, MachineProfile{}, 1);
    const auto division = pipeline::divide(layers.layers, pipeline::Balance::kOperations,
                                           schedule.windows, schedule.versions);
    stage_of = stage_of_nodes(layers, division->first, static_cast<int>(graph.nodes.size()));
  }

  PlanningContext planning() const { return {&table, 1}; }

  StagesProgram under(RecomputeMode mode, const StageLimits& limits) const {
    auto made =
        compile_stages(graph, kept, planning(), {.mode = mode}, layout, stage_of, schedule, limits);
    EXPECT_TRUE(made.ok()) << made.error().message;
    EXPECT_TRUE(verify(graph, made->program).ok());
    return std::move(*made);
  }
};

std::vector<int64_t> takes(const StagesProgram& made, const StageLimits& limits) {
  std::vector<int64_t> bytes;
  for (const StagePlan& stage : made.plan.stages) {
    bytes.push_back(stage_takes(made.program, stage, limits));
  }
  return bytes;
}

int64_t sum(const std::vector<int64_t>& bytes) { return std::reduce(bytes.begin(), bytes.end()); }

int again(const StagesProgram& made) {
  int count = 0;
  for (const Instruction& instruction : made.program.instructions) {
    count += instruction.again;
  }
  return count;
}

std::vector<Divided> divided_networks() {
  std::vector<Divided> networks;
  const pipeline::Options async = {
      .mode = Mode::kAsync, .stages = 3, .accumulate = 4, .updates = 6};
  networks.emplace_back("resnet8", "dfp8", async);
  networks.emplace_back("lenet5", "fp32",
                        pipeline::Options{.form = FlushForm::k1F1B, .stages = 3, .accumulate = 8});
  networks.emplace_back("resnet8", "bfp8",
                        pipeline::Options{.form = FlushForm::kSplit, .stages = 2, .accumulate = 8});
  return networks;
}

TEST(StagesMemory, LimitsHold) {
  const StageLimits none = {.instruction_bytes = 1024, .micro_batch_bytes = 512};
  for (const Divided& network : divided_networks()) {
    SCOPED_TRACE(network.graph.nodes[0].name + " " + std::to_string(network.stage_of.size()));
    const StagesProgram most = network.under(RecomputeMode::kAuto, none);
    EXPECT_EQ(again(most), 0);
    const StagesProgram least = network.under(RecomputeMode::kAll, none);
    const std::vector<int64_t> most_bytes = takes(most, none), least_bytes = takes(least, none);
    ASSERT_LT(sum(least_bytes), sum(most_bytes));
    for (size_t s = 0; s < most_bytes.size(); ++s) EXPECT_LE(least_bytes[s], most_bytes[s]);
    for (const int eighth : {0, 6, 8}) {
      StageLimits limits = none;
      limits.all_bytes = sum(least_bytes) + (sum(most_bytes) - sum(least_bytes)) * eighth / 8;
      const StagesProgram made = network.under(RecomputeMode::kAuto, limits);
      EXPECT_LE(sum(takes(made, limits)), limits.all_bytes) << eighth << " eighths";
      if (eighth == 8) {
        EXPECT_EQ(again(made), 0);
      } else if (eighth == 6) {
        EXPECT_LT(again(made), again(least));
      }
    }
    // A limit for each stage. In the first stage it saves half of what is possible.
    StageLimits first = none;
    first.bytes = most_bytes;
    first.bytes[0] = (most_bytes[0] + least_bytes[0]) / 2;
    const StagesProgram made = network.under(RecomputeMode::kAuto, first);
    const std::vector<int64_t> bytes = takes(made, first);
    for (size_t s = 0; s < bytes.size(); ++s) EXPECT_LE(bytes[s], first.bytes[s]);
    EXPECT_EQ(std::vector(bytes.begin() + 1, bytes.end()),
              std::vector(most_bytes.begin() + 1, most_bytes.end()));
    // If nothing fits, the smallest plan is taken.
    StageLimits too_little = none;
    too_little.all_bytes = sum(least_bytes) / 2;
    EXPECT_EQ(takes(network.under(RecomputeMode::kAuto, too_little), none), least_bytes);
  }
}

// Values that stages pass on are kept. Others are computed again in their own stage.
TEST(StagesMemory, PassedValuesStay) {
  for (const Divided& network : divided_networks()) {
    const std::vector<bool> passed = passed_values(network.graph, network.kept, network.stage_of);
    EXPECT_NE(std::ranges::count(passed, true), 0);
    for (const RecomputeMode mode : {RecomputeMode::kAll, RecomputeMode::kLiteral}) {
      const StagesProgram made = network.under(mode, {});
      for (const Instruction& instruction : made.program.instructions) {
        if (!instruction.again) continue;
        EXPECT_FALSE(passed[instruction.output().exponent]) << instruction.name;
        EXPECT_EQ(network.stage_of[instruction.node], network.stage_of[instruction.layer]);
      }
    }
  }
}

// An asynchronous stage keeps versions only of the weights that it computes again with.
TEST(StagesMemory, AsynchronousStagesHaveVersionsWhereTheyComputeAgain) {
  const Divided network = divided_networks().front();
  const StagesProgram most = network.under(RecomputeMode::kNone, {});
  for (const StagePlan& stage : most.plan.stages) EXPECT_EQ(stage.versions, 0);
  const StagesProgram least = network.under(RecomputeMode::kAll, {});
  for (const StagePlan& stage : least.plan.stages) {
    const bool misses = stage.window > 1;
    EXPECT_EQ(stage.versions, misses ? 2 : 0);
    EXPECT_EQ(stage.versioned.empty(), !misses);
    for (const int i : stage.versioned) {
      EXPECT_TRUE(least.program.instructions[i].again);
    }
  }
}

}  // namespace
}  // namespace mantissa
