// Recompute [0014], [0015]: networks are trained by the literal rule, on a machine where it fires.
// The machine's profile has memory on the chip for a convolution's output. The activation after it
// goes to slow memory.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/retention/compile_training.h"
#include "plan/retention/recompute_model.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kMicroBatch = 8;
constexpr int kSteps = 2;

int64_t ticks = 0;
int64_t tick() { return ++ticks; }

class TwoLayers {
 public:
  explicit TwoLayers(const char* format, int micro_batches)
      : format_(*parse_format(format)), pool_(1), table_(kernels::select_kernels(best_isa())) {
    ModelOptions model;
    model.channel_means = {73};
    graph_ = in_format(with_loss(*build_model("vgg8b", model)), format_);
    options_ = {.micro_batch_size = kMicroBatch,
                .micro_batches = micro_batches,
                .exponents = training_exponents(format_),
                .format = format_};
  }

  // Room for the first value, for an activation and for half of another one.
  MachineProfile machine() const {
    const Program kept = *compile(graph_, options_, planning());
    const RecomputeModel model(graph_, kept, MachineProfile{}, 1);
    std::map<std::string, int64_t> bytes;
    for (const RecomputeModel::Value& value : model.values()) bytes[value.name] = value.bytes;
    MachineProfile profile;
    profile.norm_elements_per_ns = profile.elements_per_ns = 50;
    profile.tiers[2].bytes_per_ns = 5;
    profile.on_chip = {bytes["normalise"] + bytes["relu1"] * 3 / 2, 100};
    return profile;
  }

  struct Trained {
    std::string state;
    std::vector<StepResult> steps;
    std::map<std::string, int64_t> again;  // how often each instruction computes again
  };

  Trained train(RecomputeMode mode) {
    const TrainingProgram made = *compile_training(
        graph_, options_, planning(), {.mode = mode, .limit_bytes = 0, .profile = machine()});
    const Program& program = made.program;
    State state = std::move(*State::create(training_layout(graph_, format_, options_.optimizer)));
    initialise(graph_, format_, 1, state);
    AlignedMemory arena = std::move(*AlignedMemory::create(program.arena_bytes));
    std::memset(arena.data(), 0xA5, static_cast<size_t>(program.arena_bytes));
    Executor executor(graph_, program, state, arena.span(), pool_, best_isa());
    std::vector<int64_t> runs(program.instructions.size(), 0);
    executor.set_profile(runs, tick);
    Trained trained;
    const ExampleSet& images = fashion_mnist().train;
    const int64_t size = kMicroBatch * options_.micro_batches;
    const std::vector<int32_t> labels = first_labels(images, kSteps * size);
    for (int step = 0; step < kSteps; ++step) {
      const std::array<const void*, 2> batch = {
          images.pixels().data() + step * size * images.picture_form().bytes(),
          labels.data() + step * size};
      const auto result =
          executor.train_step(batch, {.learning_rate = 0.05,
                                      .momentum = 0.9,
                                      .gradient_scale = 1.0 / static_cast<double>(size),
                                      .step = step});
      EXPECT_TRUE(result.ok());
      trained.steps.push_back(*result);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (instruction.again) trained.again[instruction.name] += runs[i];
    }
    trained.state = state.sha256(StateGroup::kPredictor);
    return trained;
  }

 private:
  PlanningContext planning() const { return {&table_, 1}; }

  Format format_;
  ThreadPool pool_;
  kernels::KernelTable table_;
  Graph graph_;
  ProgramOptions options_;
};

// The activation is run again in each micro-batch: from the convolution's output or, if batch norm
// is inverted, from the batch norm's. The bits are the same as in the run that stores it.
TEST(LiteralRule, TrainsWithTheBitsOfTheRunThatStores) {
  for (const char* format : {"bfp8", "bfp:inversion=yes"}) {
    for (const int micro_batches : {1, 2}) {
      SCOPED_TRACE(std::string(format) + ", micro-batches " + std::to_string(micro_batches));
      TwoLayers network(format, micro_batches);
      const TwoLayers::Trained stored = network.train(RecomputeMode::kNone);
      const TwoLayers::Trained literal = network.train(RecomputeMode::kLiteral);
      EXPECT_TRUE(stored.again.empty());
      ASSERT_FALSE(literal.again.empty()) << "the rule does not fire";
      const bool is_inverted = format == std::string("bfp:inversion=yes");
      EXPECT_TRUE(literal.again.contains(is_inverted ? "relu1" : "norm1"));
      for (const auto& [name, runs] : literal.again) {
        EXPECT_EQ(runs, kSteps * micro_batches) << name;
      }
      EXPECT_EQ(literal.state, stored.state);
      for (int i = 0; i < kSteps; ++i) expect_same_counts(literal.steps[i], stored.steps[i]);
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
