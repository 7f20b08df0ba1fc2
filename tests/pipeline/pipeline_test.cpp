// Stages that work at the same time compute the bits of one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

using pipeline::FlushForm;
using pipeline::Mode;
using pipeline::Windows;

constexpr int kSteps = 5;

// Compares the state after some steps, and all counts but mispredictions: each micro-batch in
// flight has its own predictors for values.
void expect_same_as_one_stage(HarnessOptions options) {
  SCOPED_TRACE(options.model + " " + options.format + " in " + std::to_string(options.stages));
  Harness stages(options);
  options.stages = 0;
  Harness one(options);
  for (StepResult& of_stages : stages.stretch(kSteps)) {
    const StepResult of_one = one.step();
    of_stages.mispredictions = of_one.mispredictions;
    expect_same_counts(of_stages, of_one);
  }
  EXPECT_EQ(stages.state_sha256(), one.state_sha256());
  EXPECT_EQ(stages.weights_sha256(), one.weights_sha256());
}

TEST(Pipeline, FlushHasTheBitsOfOneProcess) {
  for (const char* model : {"lenet5", "resnet8", "mobilenet_v2"}) {
    const double width = std::string(model) == "mobilenet_v2" ? 0.125 : 1;
    for (const char* format : {"bfp8", "dfp8", "bfp:g=8,gr=stochastic"}) {
      for (const int stages : {1, 2, 3, 4}) {
        expect_same_as_one_stage({.model = model,
                                  .format = format,
                                  .batch_size = 16,
                                  .micro_batch_size = 4,
                                  .width = width,
                                  .stages = stages});
      }
    }
  }
}

TEST(Pipeline, EveryFormOfFlushHasThem) {
  for (const FlushForm form : {FlushForm::kGPipe, FlushForm::k1F1B, FlushForm::kSplit}) {
    for (const int64_t micro_batch_size : {2, 16}) {
      expect_same_as_one_stage({.model = "resnet8",
                                .batch_size = 16,
                                .micro_batch_size = micro_batch_size,
                                .threads = 2,
                                .stages = 3,
                                .form = form});
    }
  }
}

TEST(Pipeline, ProcessesAndReplicasHaveThem) {
  for (const char* format : {"bfp8", "dfp8", "bfp:g=8,gr=stochastic"}) {
    for (const auto& [stages, replicas] : {std::pair{3, 1}, {1, 2}, {2, 2}, {1, 4}}) {
      expect_same_as_one_stage({.model = "resnet8",
                                .format = format,
                                .batch_size = 16,
                                .micro_batch_size = 4,
                                .width = 0.5,
                                .stages = stages,
                                .replicas = replicas});
    }
  }
}

// Replicas may be narrow, and networks have dropout, momentum and more.
TEST(Pipeline, ReplicasOfOtherNetworksAndOptimisersHaveThem) {
  for (const char* model : {"lenet5", "mobilenet_v2"}) {
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
      expect_same_as_one_stage({.model = model,
                                .optimizer = optimizer,
                                .batch_size = 12,
                                .micro_batch_size = 2,
                                .width = std::string(model) == "lenet5" ? 1 : 0.125,
                                .stages = 2,
                                .replicas = 3});
    }
  }
}

// Values that stages compute again have the bits that they had.
TEST(Pipeline, FlushHasThemWhereStagesComputeAgain) {
  for (const char* model : {"lenet5", "resnet8", "mobilenet_v2"}) {
    const double width = std::string(model) == "mobilenet_v2" ? 0.125 : 1;
    for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:inversion=yes"}) {
      if (std::string(model) == "lenet5" && format == std::string("bfp:inversion=yes")) continue;
      for (const int stages : {2, 3, 4}) {
        HarnessOptions options = {.model = model,
                                  .format = format,
                                  .batch_size = 16,
                                  .micro_batch_size = 4,
                                  .width = width,
                                  .retention_key = static_cast<uint64_t>(stages),
                                  .stages = stages,
                                  .form = stages == 4 ? FlushForm::k1F1B : FlushForm::kSplit};
        // Some of them as processes, with replicas.
        if (stages == 2 && format != std::string("fp32")) options.replicas = 2;
        SCOPED_TRACE(options.model + " " + options.format + " in " + std::to_string(stages));
        Harness stages_run(options);
        stages_run.stretch(3);
        options.stages = 0;
        options.retention_key = 0;
        Harness one(options);
        for (int i = 0; i < 3; ++i) one.step();
        EXPECT_EQ(stages_run.state_sha256(), one.state_sha256());
      }
    }
  }
}

HarnessOptions asynchronous(Mode mode, Windows windows, int micro_batch_size) {
  return {.model = "resnet8",
          .batch_size = 16,
          .micro_batch_size = micro_batch_size,
          .stages = 3,
          .pipeline = mode,
          .windows = windows};
}

// However threads are scheduled.
TEST(Pipeline, AsynchronousRunsRepeat) {
  for (const char* format : {"bfp8", "dfp8", "fp32"}) {
    for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
      for (const Windows windows : {Windows::kLean, Windows::kFull}) {
        HarnessOptions options = asynchronous(mode, windows, 4);
        options.format = format;
        std::set<std::string> hashes;
        for (const int threads : {1, 1, 2}) {
          options.threads = threads;
          if (format == std::string("fp32")) options.threads = 1;
          Harness run(options);
          run.stretch(8);
          hashes.insert(run.state_sha256());
        }
        EXPECT_EQ(hashes.size(), 1u) << format << " " << pipeline::mode_name(mode);
      }
    }
  }
}

// Threads give the same bits as processes.
void expect_same_in_processes(HarnessOptions options) {
  Harness threads(options);
  options.replicas = 1;
  Harness processes(options);
  threads.stretch(6);
  processes.stretch(6);
  EXPECT_EQ(threads.state_sha256(), processes.state_sha256());
  options.replicas = 2;
  std::set<std::string> hashes;
  for (const int workers : {1, 2}) {
    options.threads = workers;
    Harness replicas(options);
    replicas.stretch(6);
    hashes.insert(replicas.state_sha256());
  }
  EXPECT_EQ(hashes.size(), 1u) << "replicas";
}

TEST(Pipeline, AsynchronousProcessesHaveTheBitsOfThreads) {
  for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
    for (const bool predicts : {false, true}) {
      SCOPED_TRACE(pipeline::mode_name(mode));
      HarnessOptions options = asynchronous(mode, Windows::kLean, 4);
      options.predicts_weights = predicts;
      expect_same_in_processes(options);
    }
  }
}

// They compute with the weights of the forward pass, whatever has been updated since.
TEST(Pipeline, AsynchronousStagesComputeTheSameAgain) {
  for (const char* model : {"lenet5", "resnet8", "mobilenet_v2"}) {
    for (const char* format : {"bfp8", "dfp8", "fp32"}) {
      for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
        for (const int micro_batch_size : {4, 16}) {
          if (mode == Mode::k2bw && micro_batch_size == 16) continue;
          // The network with the most to compute again, in one format.
          if (std::string(model) == "mobilenet_v2" && std::string(format) != "bfp8") continue;
          HarnessOptions options = asynchronous(mode, Windows::kFull, micro_batch_size);
          if (mode == Mode::k2bw) options.windows = Windows::kLean;
          options.model = model;
          options.format = format;
          options.width = std::string(model) == "mobilenet_v2" ? 0.125 : 1;
          options.stages = mode == Mode::kAsync ? 4 : 3;
          SCOPED_TRACE(options.model + " " + options.format + " " +
                       std::string(pipeline::mode_name(mode)));
          for (const bool predicts : {false, true}) {
            options.predicts_weights = predicts;
            std::set<std::string> hashes;
            for (const uint64_t key : {0, 1}) {
              options.retention_key = key;
              Harness run(options);
              run.stretch(6);
              hashes.insert(run.state_sha256());
            }
            EXPECT_EQ(hashes.size(), 1u) << (predicts ? "predicted" : "");
          }
        }
      }
    }
  }
}

// The same over machines, compilers and time. If these digests change, results change.
TEST(Pipeline, AsynchronousRunsAreGolden) {
  struct Golden {
    Mode mode;
    Windows windows;
    int micro_batch_size;
    const char* state;
    bool predicts_weights = false;
  };
  for (const Golden& golden : {Golden{Mode::kAsync, Windows::kLean, 4, "e60709593ef222d2"},
                               Golden{Mode::kAsync, Windows::kFull, 16, "5c6e2566294ddb25"},
                               Golden{Mode::kStash, Windows::kFull, 8, "cf4722b617001889"},
                               Golden{Mode::k2bw, Windows::kLean, 4, "b25b8942f3746c6e"},
                               Golden{Mode::kAsync, Windows::kFull, 16, "9bfa434dea17ea5d", true},
                               Golden{Mode::kStash, Windows::kFull, 8, "65f0a91e5a640017", true},
                               Golden{Mode::k2bw, Windows::kLean, 4, "c945a682db2e987f", true}}) {
    HarnessOptions options = asynchronous(golden.mode, golden.windows, golden.micro_batch_size);
    options.predicts_weights = golden.predicts_weights;
    Harness run(options);
    run.stretch(20);
    EXPECT_EQ(run.state_sha256().substr(0, 16), golden.state) << pipeline::mode_name(golden.mode);
  }
}

// One stage misses no update. Nor does a pipeline that is empty after each update.
TEST(Pipeline, WithoutStalenessAllModesAreTheSame) {
  for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
    HarnessOptions options = asynchronous(mode, Windows::kLean, 4);
    Harness stages(options);
    for (int i = 0; i < kSteps; ++i) stages.stretch(1);
    options.stages = 1;
    Harness one_stage(options);
    one_stage.stretch(kSteps);
    options.stages = 0;
    Harness none(options);
    for (int i = 0; i < kSteps; ++i) none.step();
    EXPECT_EQ(stages.state_sha256(), none.state_sha256()) << pipeline::mode_name(mode);
    EXPECT_EQ(one_stage.state_sha256(), none.state_sha256()) << pipeline::mode_name(mode);
  }
}

// Full windows, and an update for each micro-batch: the first stage misses four.
HarnessOptions predicting(Mode mode) {
  HarnessOptions options = asynchronous(mode, Windows::kFull, mode == Mode::k2bw ? 4 : 16);
  options.predicts_weights = true;
  return options;
}

TEST(Pipeline, PredictionRepeatsAndMakesADifference) {
  for (const auto& [format, optimizer] : {std::pair{"bfp8", OptimizerKind::kMomentum},
                                          {"bfp8", OptimizerKind::kAdam},
                                          {"dfp8", OptimizerKind::kNesterov},
                                          {"bfp:g=8,gr=stochastic", OptimizerKind::kMomentum},
                                          {"bfp:block=channel", OptimizerKind::kMomentum},
                                          {"fp32", OptimizerKind::kMomentum},
                                          {"fp32", OptimizerKind::kAdamW}}) {
    for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
      SCOPED_TRACE(std::string(format) + " " + std::string(pipeline::mode_name(mode)));
      HarnessOptions options = predicting(mode);
      options.format = format;
      options.optimizer = optimizer;
      if (optimizer != OptimizerKind::kMomentum) options.learning_rate = 1e-3;
      std::set<std::string> hashes;
      for (const int threads : {1, 1, 2}) {
        options.threads = format == std::string("fp32") ? 1 : threads;
        Harness run(options);
        run.stretch(8);
        hashes.insert(run.state_sha256());
      }
      EXPECT_EQ(hashes.size(), 1u);
      options.predicts_weights = false;
      Harness plain(options);
      plain.stretch(8);
      EXPECT_FALSE(hashes.contains(plain.state_sha256()));
    }
  }
}

// No update is missed, or updates move nothing. Only ties between two weights may move: the first
// update of a run settles them, and so does a prediction of it.
TEST(Pipeline, PredictionOfNothingChangesNothing) {
  for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
    for (const bool is_at_rest : {false, true}) {
      HarnessOptions options = predicting(mode);
      if (is_at_rest) options.learning_rate = 1e-30;
      std::set<std::string> hashes;
      for (const bool predicts : {false, true}) {
        options.predicts_weights = predicts;
        Harness run(options);
        for (int i = 0; i < kSteps; ++i) run.stretch(is_at_rest && i > 0 ? 3 : 1);
        hashes.insert(run.state_sha256());
      }
      EXPECT_EQ(hashes.size(), 1u) << pipeline::mode_name(mode);
    }
  }
}

// Warm-up over as many steps as the run has, over half of them, and over none.
TEST(Pipeline, WarmUpOfStagesRepeatsAndMakesADifference) {
  std::set<std::string> hashes;
  for (const int64_t warmup : {0, 4, 4, 8}) {
    HarnessOptions options = asynchronous(Mode::kAsync, Windows::kFull, 16);
    options.stage_warmup = warmup;
    Harness run(options);
    run.stretch(8);
    hashes.insert(run.state_sha256());
  }
  EXPECT_EQ(hashes.size(), 3u);
}

// With full windows and an update for each micro-batch the modes differ from each other.
TEST(Pipeline, StalenessShows) {
  std::set<std::string> hashes;
  for (const Mode mode : {Mode::kFlush, Mode::kAsync, Mode::kStash}) {
    Harness run(asynchronous(mode, Windows::kFull, 16));
    run.stretch(20);
    hashes.insert(run.state_sha256());
  }
  EXPECT_EQ(hashes.size(), 3u);
}

std::vector<Mode> asynchronous_modes() { return {Mode::kAsync, Mode::kStash, Mode::k2bw}; }

// If an asynchronous pipeline flushes for some steps, these are the steps of one stage from its
// state on. Afterwards it can go on.
TEST(Pipeline, FlushesInBetween) {
  for (const char* format : {"bfp8", "dfp8"}) {
    for (const Mode mode : asynchronous_modes()) {
      for (const Windows windows : {Windows::kLean, Windows::kFull}) {
        HarnessOptions options = asynchronous(mode, windows, 4);
        options.format = format;
        Harness stages(options);
        stages.stretch(7);
        options.stages = 0;
        Harness one(options);
        for (int i = 0; i < 7; ++i) one.step();  // the same batches follow
        for (size_t t = 0; t < one.state().layout().tensors.size(); ++t) {
          std::ranges::copy(stages.state().bytes(static_cast<int>(t)),
                            one.state().bytes(static_cast<int>(t)).begin());
        }
        stages.stretch(5, true);
        for (int i = 0; i < 5; ++i) one.step();
        EXPECT_EQ(stages.state_sha256(), one.state_sha256()) << pipeline::mode_name(mode);
        stages.stretch(4);
        EXPECT_NE(stages.state_sha256(), one.state_sha256());
      }
    }
  }
}

// Steps that were not fed are left out, wherever the pipeline was at that moment.
TEST(Pipeline, AFlushEndsEarly) {
  for (const FlushForm form : {FlushForm::kGPipe, FlushForm::k1F1B, FlushForm::kSplit}) {
    const HarnessOptions options = {
        .model = "lenet5", .batch_size = 16, .micro_batch_size = 4, .stages = 3, .form = form};
    for (const int taken : {0, 1, 3}) {
      Harness stages(options);
      const int steps = stages.stretch_until(100, taken);
      EXPECT_GE(steps, taken);
      EXPECT_LT(steps, taken + 4);
      stages.stretch(2);
      Harness whole(options);
      whole.stretch(steps + 2);
      EXPECT_EQ(stages.state_sha256(), whole.state_sha256());
    }
  }
}

// Stages count the same missed updates as the schedule.
TEST(Pipeline, MissedUpdatesAreThoseOfTheSchedule) {
  constexpr int kUpdates = 9;
  for (const Mode mode : {Mode::kFlush, Mode::kAsync, Mode::kStash, Mode::k2bw}) {
    for (const Windows windows : {Windows::kLean, Windows::kFull}) {
      for (const int micro_batch_size : {4, 8, 16}) {
        const HarnessOptions options = asynchronous(mode, windows, micro_batch_size);
        const pipeline::Options way = {.mode = mode,
                                       .windows = windows,
                                       .stages = options.stages,
                                       .accumulate = 16 / micro_batch_size,
                                       .updates = kUpdates};
        const auto schedule = pipeline::make_schedule(way);
        if (!schedule.ok()) continue;
        Harness run(options);
        run.stretch(kUpdates);
        const std::vector<pipeline::MissedUpdates> counted = run.pipeline().missed_updates();
        for (size_t s = 0; s < counted.size(); ++s) {
          const std::vector<int> missed = pipeline::staleness(schedule->stages[s]);
          EXPECT_EQ(counted[s].micro_batches, std::ssize(missed));
          EXPECT_EQ(counted[s].missed, std::accumulate(missed.begin(), missed.end(), 0));
          EXPECT_EQ(counted[s].most, std::ranges::max(missed));
        }
      }
    }
  }
}

// Each cell of the traced steps comes once, and no other cell; cells of a stage do not overlap.
TEST(Pipeline, IsTraced) {
  for (const Mode mode : {Mode::kFlush, Mode::kAsync}) {
    Harness run(asynchronous(mode, Windows::kLean, 4));
    run.pipeline().trace(1, 4);  // the harness counts its steps from 1
    run.stretch(2);
    run.stretch(3);
    const pipeline::Trace trace = run.pipeline().take_trace();
    ASSERT_EQ(trace.stages.size(), 3u);
    int64_t count = 0;
    for (const auto& cells : trace.stages) {
      std::set<std::tuple<pipeline::Work, int64_t, int>> seen;
      int64_t end = 0;
      for (const pipeline::TracedCell& cell : cells) {
        EXPECT_TRUE(seen.emplace(cell.work, cell.step, cell.micro_batch).second);
        EXPECT_TRUE(cell.step >= 2 && cell.step <= 4) << cell.step;
        EXPECT_GE(cell.start_ns, end);
        EXPECT_GE(cell.end_ns, cell.start_ns);
        end = cell.end_ns;
      }
      count += std::ssize(cells);
    }
    EXPECT_EQ(count, pipeline::traced_cells(trace.options, 3));
    EXPECT_TRUE(run.pipeline().take_trace().stages[0].empty());
  }
}

}  // namespace
}  // namespace mantissa::testing
