#include "train/loop.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_folder.h"
#include "data/batches/shuffled_batches.h"
#include "data/synthetic.h"
#include "infer/tasks/classification.h"
#include "run/settings/run_folder.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

constexpr int64_t kExamples = 40, kBatchSize = 8, kStepsPerEpoch = kExamples / kBatchSize;

// A run of four epochs on arrays in memory, in a folder of its own.
class Loop : public testing::Test {
 protected:
  Loop()
      : info_(*synthetic_info(6, 6, 1, 4, kExamples)),
        images_(synthetic_examples(info_, 3)),
        labels_(images_.labels().begin(), images_.labels().end()) {}

  RunConfig config(std::map<std::string, std::string> more = {}) const {
    more.insert({{"model", "mlp"},
                 {"width", "0.1"},
                 {"batch-size", std::to_string(kBatchSize)},
                 {"epochs", "4"},
                 {"threads", "1"},
                 {"hash-every", "1"},
                 {"out", folder_.path().string()}});
    return *make_run_config(more);
  }

  Examples examples() const {
    return array_examples(
        kExamples, {{{kPixelTensor, DataType::kUint8, Shape{6, 6, 1}}, images_.pixels().data()},
                    {{kLabelTensor, DataType::kInt32, Shape{}}, labels_.data()}});
  }

  // Takes the remaining steps of `info`, until the observer stops it; gives the state's hash.
  Result<std::string> run(const RunConfig& config, CheckpointInfo& info, RunPlan& plan,
                          const TrainObserver& observer = nullptr,
                          std::function<Result<Score>(const EvaluationObserver&)> validate = {}) {
    State state = std::move(*State::create(plan.layout));
    const AlignedMemory arena = std::move(*AlignedMemory::create(plan.arena_bytes()));
    ThreadPool pool(1);
    initialise(plan.graph, config.format, config.seed, state);
    if (info.step > 0) {
      const auto saved = load_newest_checkpoint(config.out, info.run_identity, state);
      EXPECT_TRUE(saved.ok() && *saved);
      info = **saved;
    }
    auto batches = ShuffledBatches::create(
        examples(), {.batch_size = kBatchSize,
                     .seed = config.seed,
                     .first_epoch = static_cast<uint32_t>(info.step / plan.steps_per_epoch),
                     .first_step = info.step % plan.steps_per_epoch,
                     .total_steps = plan.total_steps - info.step});
    EXPECT_TRUE(batches.ok());
    const Task task = classification_task({.classes = 4}, "", {});
    Programs programs(plan.graph, state, {pool, arena.span(), config.isa});
    programs.add(plan.training);
    StepTimes times;
    MANTISSA_RETURN_IF_ERROR(run_loop({config, plan, task, observer, programs, std::move(validate)},
                                      {state, info, times}, **batches));
    return state.sha256(StateGroup::kPredictor);
  }

  TestFolder folder_;
  DatasetInfo info_;
  ExampleSet images_;
  std::vector<int32_t> labels_;
};

TEST_F(Loop, GoesOnWhereItWasStopped) {
  const RunConfig settings = config();
  RunPlan plan = *plan_run(settings, info_);
  CheckpointInfo whole;
  whole.run_identity = "a";
  const auto expected = run(settings, whole, plan);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_EQ(whole.step, 4 * kStepsPerEpoch);
  ASSERT_TRUE(remove_run(settings.out).ok());

  CheckpointInfo info;
  info.run_identity = "a";
  for (const int64_t stop : {1, 7, 10, 19}) {
    const auto stopped = run(settings, info, plan, [&](const TrainEvent& event) {
      return event.kind != TrainEventKind::kStep || event.step < stop;
    });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
    EXPECT_EQ(info.step, stop);
  }
  const auto resumed = run(settings, info, plan);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(*resumed, *expected);
}

// Scores that do not fall after the second epoch end the run two epochs later.
TEST_F(Loop, AsksForAScoreAfterEachEpochAndStopsEarly) {
  const RunConfig settings = config({{"early-stop", "2"}, {"epochs", "9"}});
  RunPlan plan = *plan_run(settings, info_);
  plan.validation_examples = 10;
  CheckpointInfo info;
  info.run_identity = "a";
  std::vector<int64_t> validated;
  std::vector<std::string> messages;
  const auto state = run(
      settings, info, plan,
      [&](const TrainEvent& event) {
        if (event.kind == TrainEventKind::kMessage) messages.push_back(event.message);
        return true;
      },
      [&](const EvaluationObserver& observer) -> Result<Score> {
        EXPECT_TRUE(observer(10));
        validated.push_back(info.step);
        const int64_t loss_q24 = validated.size() == 2 ? 10 : 100;
        return Score{.examples = 10, .correct = 4, .loss_q24 = loss_q24, .loss = 0.5};
      });
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_EQ(validated, (std::vector<int64_t>{5, 10, 15, 20}));
  EXPECT_EQ(info.step, 20);
  EXPECT_EQ(info.best_step, 10);
  EXPECT_EQ(info.best_correct, 4);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0], "step 5: validation loss 0.5000, accuracy 40.00 %");
}

}  // namespace
}  // namespace mantissa
