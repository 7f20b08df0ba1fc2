#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "pipeline/diagram.h"
#include "pipeline/simulate.h"

namespace mantissa::pipeline {
namespace {

Schedule schedule_of(const Options& options) {
  Result<Schedule> schedule = make_schedule(options);
  EXPECT_TRUE(schedule.ok()) << schedule.error().message;
  return *schedule;
}

std::vector<Options> ways() {
  std::vector<Options> ways;
  for (const int stages : {1, 2, 3, 4, 7}) {
    for (const int accumulate : {1, 2, 3, 8, 20}) {
      for (const FlushForm form : {FlushForm::kGPipe, FlushForm::k1F1B, FlushForm::kSplit}) {
        ways.push_back({.mode = Mode::kFlush,
                        .form = form,
                        .stages = stages,
                        .accumulate = accumulate,
                        .updates = 3});
      }
      for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
        for (const Windows windows : {Windows::kLean, Windows::kFull}) {
          const Options options = {.mode = mode,
                                   .windows = windows,
                                   .stages = stages,
                                   .accumulate = accumulate,
                                   .updates = 3};
          if (make_schedule(options).ok()) ways.push_back(options);
        }
      }
    }
  }
  return ways;
}

// METHODS section 5: the cells of figure 6, read in another way than the text reads them. A row is
// a stage, and a number is a micro-batch. In the text rows are micro-batches and numbers are
// layers; and the backward pass of the first layer runs before the last layer has run forward.
TEST(PipelineSchedule, HasTheCellsOfFigureSixReadAsStages) {
  const Schedule schedule = schedule_of({.mode = Mode::kAsync,
                                         .windows = Windows::kFull,
                                         .stages = 3,
                                         .accumulate = 1,
                                         .updates = 12});
  const StageTimes times = {.grad_weights = 0, .update = 1, .fused = true};
  EXPECT_EQ(*diagram(schedule, times, 14),
            "P1 M1 M2 M3 M4 M5 B1 W1 M6 B2 W2 M7 B3 W3 M8\n"
            "P2 .  M1 M2 M3 B1 W1 M4 B2 W2 M5 B3 W3 M6 B4\n"
            "P3 .  .  M1 B1 W1 M2 B2 W2 M3 B3 W3 M4 B4 W4\n");
  for (int s = 0; s < 3; ++s) {
    const std::vector<int> missed = staleness(schedule.stages[s]);
    EXPECT_EQ(*std::ranges::max_element(missed), 2 * (2 - s)) << s;
  }
}

// The first backward pass comes after as many forward passes as may be in flight. The last stage to
// make its third update makes it at the right edge.
TEST(PipelineDiagram, IsDrawnUntilAFullPipelineHasUpdatedThreeTimes) {
  for (Options options : ways()) {
    if (options.mode == Mode::kFlush && options.form == FlushForm::kSplit) continue;
    options.updates = 8 * options.stages;
    const Schedule schedule = schedule_of(options);
    const StageTimes times = {.grad_weights = 0, .update = 1, .fused = true};
    std::istringstream lines(*diagram_of_updates(schedule, times, 3));
    std::string line;
    size_t ends_with_third = 0;
    for (int s = 0; s < options.stages; ++s) {
      ASSERT_TRUE(std::getline(lines, line));
      std::istringstream words(line);
      const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
      const auto first_backward = std::ranges::find(cells, "B1");
      const auto forward = std::count_if(cells.begin(), first_backward,
                                         [](const std::string& cell) { return cell[0] == 'M'; });
      EXPECT_EQ(forward, schedule.windows[s]) << line;
      EXPECT_TRUE(std::ranges::find(cells, "W3") != cells.end()) << line;
      ends_with_third += cells.back() == "W3";
    }
    EXPECT_GE(ends_with_third, 1u);
    EXPECT_FALSE(std::getline(lines, line)) << line;
  }
}

TEST(PipelineDiagram, SaysWhereItIsCut) {
  const Schedule schedule = schedule_of({.stages = 2, .accumulate = 400, .updates = 16});
  const std::string text = *diagram_of_updates(schedule, {.update = 1}, 3);
  EXPECT_NE(text.find("cut behind 1000 of 3"), std::string::npos) << text.substr(text.size() - 80);
}

TEST(PipelineSchedule, DoesAllWorkOnceAndNothingBeforeItsInput) {
  for (const Options& options : ways()) {
    const Schedule schedule = schedule_of(options);
    for (const auto& cells : schedule.stages) {
      std::set<std::pair<Work, int>> done;
      for (const Cell& cell : cells) {
        EXPECT_TRUE(done.emplace(cell.work, cell.index).second);
        const bool backward = cell.work == Work::kGradInput || cell.work == Work::kGradWeights;
        const Work before = cell.work == Work::kGradInput ? Work::kForward : Work::kGradInput;
        EXPECT_TRUE(!backward || done.contains({before, cell.index}));
        if (cell.work != Work::kUpdate) continue;
        for (int i = 0; i < options.accumulate; ++i) {
          EXPECT_TRUE(done.contains({Work::kGradWeights, cell.index * options.accumulate + i}));
        }
      }
      EXPECT_EQ(done.size(), static_cast<size_t>(3 * options.micro_batches() + options.updates));
    }
    const std::vector<StageTimes> times(schedule.stages.size());
    EXPECT_TRUE(simulate(schedule, times).ok());
  }
}

// docs/pipelines.md: as many micro-batches are in flight as the formulas say, if there are as many.
TEST(PipelineSchedule, WindowsFollowTheirFormulas) {
  constexpr int kStages = 4;
  const auto windows = [](Mode mode, Windows kind, FlushForm form) {
    return schedule_of({.mode = mode,
                        .form = form,
                        .windows = kind,
                        .stages = kStages,
                        .accumulate = 16,
                        .updates = 2})
        .windows;
  };
  for (const Mode mode : {Mode::kAsync, Mode::kStash, Mode::k2bw}) {
    EXPECT_EQ(windows(mode, Windows::kLean, {}), (std::vector<int>{4, 3, 2, 1}));
    EXPECT_EQ(windows(mode, Windows::kFull, {}), (std::vector<int>{7, 5, 3, 1}));
  }
  const auto flush = [&](FlushForm form) { return windows(Mode::kFlush, {}, form)[0]; };
  EXPECT_EQ(flush(FlushForm::k1F1B), kStages);
  EXPECT_EQ(flush(FlushForm::kSplit), 2 * kStages - 1);
  EXPECT_EQ(flush(FlushForm::kGPipe), 16);
}

// docs/pipelines.md: the other forms of a flush wait longer than `split`.
TEST(PipelineSimulation, SplitWaitsTheLeastOfAllForms) {
  for (const int stages : {2, 3, 4, 8}) {
    const auto total = [stages](FlushForm form) {
      const Schedule schedule =
          schedule_of({.form = form, .stages = stages, .accumulate = 4 * stages, .updates = 4});
      return simulate(schedule, std::vector<StageTimes>(schedule.stages.size()))->total;
    };
    EXPECT_LT(total(FlushForm::kSplit), total(FlushForm::k1F1B)) << stages;
    EXPECT_LT(total(FlushForm::kSplit), total(FlushForm::kGPipe)) << stages;
  }
}

// docs/pipelines.md: a stage goes on with the next step after its own update, while others still
// work on the step before.
TEST(PipelineSimulation, AFlushGoesOnWithTheNextStepAtOnce) {
  constexpr int kStages = 4, kMicroBatches = 8;
  const Schedule schedule =
      schedule_of({.stages = kStages, .accumulate = kMicroBatches, .updates = 2});
  const Simulation simulation = *simulate(schedule, std::vector<StageTimes>(kStages));
  double first_begins = 1e9, last_ends = 0;  // the second step, and the first
  for (int s = 0; s < kStages; ++s) {
    for (size_t i = 0; i < schedule.stages[s].size(); ++i) {
      const Interval& interval = simulation.stages[s].intervals[i];
      const bool is_update = schedule.stages[s][i].work == Work::kUpdate;
      const int step = schedule.stages[s][i].index / (is_update ? 1 : kMicroBatches);
      if (step == 0) last_ends = std::max(last_ends, interval.end);
      if (step == 1) first_begins = std::min(first_begins, interval.start);
    }
  }
  EXPECT_LT(first_begins, last_ends);
}

TEST(PipelineSchedule, KeepsToItsWindows) {
  for (const Options& options : ways()) {
    const Schedule schedule = schedule_of(options);
    for (size_t s = 0; s < schedule.stages.size(); ++s) {
      EXPECT_LE(peak_in_flight(schedule.stages[s]), schedule.windows[s]);
    }
  }
}

// METHODS section 5: with accumulation N a micro-batch misses ⌊d/N⌋ to ⌈d/N⌉ updates of its stage,
// where d = w − 1.
TEST(PipelineSchedule, MissesAsManyUpdatesAsTheFormulaSays) {
  for (const Options& options : ways()) {
    const Schedule schedule = schedule_of(options);
    for (size_t s = 0; s < schedule.stages.size(); ++s) {
      const std::vector<int> missed = staleness(schedule.stages[s]);
      const int behind = options.mode == Mode::kFlush ? 0 : schedule.windows[s] - 1;
      const int n = options.accumulate;
      for (int i = 0; i < options.micro_batches(); ++i) {
        EXPECT_LE(missed[i], most_missed_updates(options, schedule.windows[s]));
        EXPECT_TRUE(i < behind || missed[i] >= behind / n);
      }
    }
  }
}

TEST(PipelineSchedule, TwoVersionsAreEnoughFor2bw) {
  for (const Options& options : ways()) {
    if (options.mode != Mode::k2bw) continue;
    for (const auto& cells : schedule_of(options).stages) {
      const std::vector<int> missed = staleness(cells);
      EXPECT_LE(*std::ranges::max_element(missed), 1);
    }
  }
  const Result<Schedule> refused =
      make_schedule({.mode = Mode::k2bw, .stages = 4, .accumulate = 2, .updates = 9});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("at least 3 micro-batches, not 2"), std::string::npos);
}

TEST(PipelineSchedule, RefusesWhatCannotBe) {
  EXPECT_FALSE(make_schedule({.stages = 0}).ok());
  EXPECT_FALSE(make_schedule({.stages = 1001}).ok());
  EXPECT_FALSE(make_schedule({.accumulate = 0}).ok());
  EXPECT_FALSE(make_schedule({.stages = 1000, .accumulate = 1 << 20, .updates = 1 << 20}).ok());
}

double idle(const Options& options, const StageTimes& times = {}, const Conditions& on = {}) {
  const Schedule schedule = schedule_of(options);
  const std::vector<StageTimes> all(schedule.stages.size(), times);
  return simulate(schedule, all, on)->idle;
}

TEST(PipelineSimulation, ABalancedPipelineWaitsForNothing) {
  for (const int stages : {2, 3, 4, 8, 14, 100}) {
    const Options async = {
        .mode = Mode::kAsync, .stages = stages, .accumulate = 1, .updates = 10 * stages};
    EXPECT_LE(idle(async), 0.01) << stages;
    const Options flush = {.stages = stages, .accumulate = 4 * stages, .updates = 6};
    EXPECT_LE(idle(flush), 0.01) << stages;
  }
}

// The classic figure: a bubble of (P − 1)/(m + P − 1).
TEST(PipelineSimulation, GPipeHasItsBubble) {
  for (const int stages : {2, 4, 8}) {
    const int m = 2 * stages;
    const Schedule schedule =
        schedule_of({.form = FlushForm::kGPipe, .stages = stages, .accumulate = m, .updates = 1});
    const std::vector<StageTimes> times(static_cast<size_t>(stages), {.fused = true});
    const Simulation simulation = *simulate(schedule, times);
    double busy = 0;
    for (const StageResult& stage : simulation.stages) {
      for (const Interval& interval : stage.intervals) busy += interval.end - interval.start;
    }
    const double bubble = 1 - busy / (stages * simulation.total);
    EXPECT_NEAR(bubble, (stages - 1.0) / (m + stages - 1), 1e-9) << stages;
  }
}

TEST(PipelineSimulation, HopsJitterAndStragglersCost) {
  const Options options = {.mode = Mode::kAsync, .stages = 4, .accumulate = 1, .updates = 200};
  EXPECT_LE(idle(options, {}, {.hop = 0.5}), 0.01);  // half a forward pass is hidden
  EXPECT_GT(idle(options, {}, {.hop = 5}), 0.3);
  const double jittered = idle(options, {}, {.jitter = 0.3, .seed = 1});
  EXPECT_GT(jittered, 0.005);
  EXPECT_LT(jittered, 0.06);
  EXPECT_EQ(jittered, idle(options, {}, {.jitter = 0.3, .seed = 1}));
  // Three of four stages wait for the one that takes twice as long.
  EXPECT_NEAR(idle(options, {}, {.straggler = 1, .straggler_factor = 2}), 0.375, 0.02);
}

TEST(PipelineSimulation, FindsSchedulesThatWaitForThemselves) {
  Schedule schedule = schedule_of({.stages = 2, .accumulate = 2});
  std::ranges::reverse(schedule.stages[1]);
  const std::vector<StageTimes> times(2);
  const Result<Simulation> stuck = simulate(schedule, times);
  ASSERT_FALSE(stuck.ok());
  EXPECT_NE(stuck.error().message.find("waits for itself"), std::string::npos);
  EXPECT_FALSE(simulate(schedule, std::span(times).first(1)).ok());
}

TEST(PipelineSimulation, AThousandStages) {
  const Options options = {.mode = Mode::kAsync, .stages = 1000, .accumulate = 1, .updates = 4000};
  EXPECT_LE(idle(options), 0.01);
}

TEST(PipelineSchedule, RatesOfStagesRiseToTheRunsRate) {
  Options options = {.mode = Mode::kAsync, .stages = 8, .stage_warmup = 100};
  for (const int window : {1, 2, 8, 15}) {
    const double missed = std::max(1, window - 1);
    for (const int64_t step : {0, 1, 25, 50, 99, 100, 101, 1000}) {
      const double part = 1 - std::min(static_cast<double>(step) / 100, 1.0);
      EXPECT_NEAR(stage_rate(options, window, 0.1, step), 0.1 / std::pow(missed, part), 1e-12);
    }
    EXPECT_EQ(stage_rate(options, window, 0.1, 100), 0.1);
  }
  options.stage_warmup = 0;
  EXPECT_EQ(stage_rate(options, 8, 0.1, 0), 0.1);
}

// Predicted weights are kept in addition to a stage's own. There are none if nothing is missed, and
// none in a flush.
TEST(PipelineSchedule, CopiesOfWeights) {
  Options options = {.stages = 4, .accumulate = 8, .updates = 4};
  const auto copies = [&](Mode mode, bool predicts) {
    options.mode = mode;
    options.predicts_weights = predicts;
    std::vector<int> found;
    const Schedule schedule = *make_schedule(options);
    for (const int window : schedule.windows) {
      found.push_back(weight_copies(options, window));
    }
    return found;
  };
  EXPECT_EQ(copies(Mode::kFlush, false), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(copies(Mode::kAsync, false), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(copies(Mode::kAsync, true), (std::vector<int>{1, 1, 1, 0}));
  EXPECT_EQ(make_schedule(options)->versions, (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(copies(Mode::kStash, true), (std::vector<int>{4, 3, 2, 0}));
  EXPECT_EQ(copies(Mode::k2bw, true), (std::vector<int>{2, 2, 2, 0}));
}

}  // namespace
}  // namespace mantissa::pipeline
