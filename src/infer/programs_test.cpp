#include "infer/programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "data/batches/ordered_batches.h"
#include "data/synthetic.h"
#include "kernels/kernel_table.h"
#include "models/models.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

constexpr int64_t kClasses = 4;

// A small network with a program for five examples and one for two.
class ProgramsOfSizes : public testing::Test {
 protected:
  ProgramsOfSizes()
      : info_(*synthetic_info(6, 6, 1, kClasses, 12)),
        images_(synthetic_examples(info_, 3)),
        graph_(*build_model("mlp", {.height = 6,
                                    .width = 6,
                                    .channels = 1,
                                    .classes = kClasses,
                                    .width_multiplier = 0.1,
                                    .channel_means = {128}})),
        state_(
            std::move(*State::create(training_layout(graph_, Format{}, OptimizerKind::kMomentum)))),
        five_(compiled(5)),
        two_(compiled(2)),
        arena_(std::move(*AlignedMemory::create(std::max(five_.arena_bytes, two_.arena_bytes)))),
        programs_(graph_, state_, {pool_, arena_.span(), best_isa()}) {
    initialise(graph_, Format{}, 1, state_);
    programs_.add(five_);
    programs_.add(two_);
  }

  Program compiled(int64_t examples) const {
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    return *compile(graph_,
                    {.kind = ProgramKind::kInference,
                     .micro_batch_size = examples,
                     .with_loss = true,
                     .exponents = ExponentMode::kCalibrate},
                    {&table, 1});
  }

  DatasetInfo info_;
  ExampleSet images_;
  Graph graph_;
  State state_;
  Program five_, two_;
  AlignedMemory arena_;
  ThreadPool pool_{1};
  Programs programs_;
};

TEST_F(ProgramsOfSizes, PickByTheNumberOfExamples) {
  auto batches = OrderedBatches::create(examples_of(images_), 5);
  ASSERT_TRUE(batches.ok());
  std::vector<int64_t> sizes, outputs;
  const Status status = infer_all(programs_, *batches, [&](const Batch& batch, const auto& step) {
    EXPECT_EQ(step.examples, batch.count);
    sizes.push_back(batch.count);
    outputs.push_back(programs_.outputs().count());
    return Status{};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(sizes, (std::vector<int64_t>{5, 5, 2}));
  EXPECT_EQ(outputs, (std::vector<int64_t>{5 * kClasses, 5 * kClasses, 2 * kClasses}));
}

// A training program of the same size is another program.
TEST_F(ProgramsOfSizes, PickByThePurpose) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const Program training =
      *compile(graph_, {.kind = ProgramKind::kTraining, .micro_batch_size = 1, .micro_batches = 5},
               {&table, 1});
  const AlignedMemory arena =
      std::move(*AlignedMemory::create(std::max(five_.arena_bytes, training.arena_bytes)));
  Programs programs(graph_, state_, {pool_, arena.span(), best_isa()});
  programs.add(training);
  auto batches = OrderedBatches::create(examples_of(images_), 5);
  EXPECT_FALSE(programs.infer(batches->next()).ok());
  programs.add(five_);
  const std::string before = state_.sha256(StateGroup::kPredictor);
  ASSERT_TRUE(programs.infer(batches->next()).ok());
  EXPECT_EQ(state_.sha256(StateGroup::kPredictor), before);
  batches->go_to(0);
  ASSERT_TRUE(
      programs.train_step(batches->next(), {.learning_rate = 0.1, .gradient_scale = 0.2}).ok());
  EXPECT_NE(state_.sha256(StateGroup::kPredictor), before);
}

TEST_F(ProgramsOfSizes, StopWhereTheCallerDoes) {
  auto batches = OrderedBatches::create(examples_of(images_), 5);
  int calls = 0;
  const Status status = infer_all(programs_, *batches, [&](const Batch&, const StepResult&) {
    return ++calls == 2 ? Status(failed("enough")) : Status{};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "enough");
  EXPECT_EQ(calls, 2);
}

TEST_F(ProgramsOfSizes, RefuseWhatTheyWereNotMadeFor) {
  const auto refusal = [&](const Examples& examples, int64_t size) {
    auto batches = OrderedBatches::create(examples, size);
    const auto step = programs_.infer(batches->next());
    return step.ok() ? "accepted" : step.error().message;
  };
  EXPECT_EQ(refusal(examples_of(images_), 5), "accepted");
  EXPECT_EQ(refusal(examples_of(images_), 3), "no program was compiled for a batch of 3 examples");
  const std::vector<float> points(12 * 9);
  EXPECT_EQ(
      refusal(array_examples(12, {{{"points", DataType::kFloat, Shape{1}}, points.data()}}), 5),
      "the network wants 'pixels' (U8 [6, 6, 1]), and the data have 'points' (F32 [1])");
  EXPECT_EQ(
      refusal(array_examples(12, {{{kPixelTensor, DataType::kUint8, Shape{36}}, points.data()}}),
              5),
      "the network wants 'pixels' (U8 [6, 6, 1]), and the data have 'pixels' (U8 [36])");
  images_.find(kLabelTensor)->as<Label>()[4] = 300;
  EXPECT_NE(refusal(examples_of(images_), 5).find("label 300"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
