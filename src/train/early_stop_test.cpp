#include "train/early_stop.h"

#include <gtest/gtest.h>

#include "run/learning_rate.h"

namespace mantissa {
namespace {

constexpr int64_t kEpochSteps = 10;

// Runs epochs with these losses until the run stops; gives the steps at which the rate fell.
std::vector<int64_t> reductions_of(const RunConfig& config, const std::vector<int64_t>& losses,
                                   CheckpointInfo& info) {
  std::vector<int64_t> steps;
  for (const int64_t loss : losses) {
    if (stops_early(config, kEpochSteps, info)) break;
    info.step += kEpochSteps;
    const int64_t before = info.reductions;
    note_epoch(config, kEpochSteps, loss, info);
    if (info.reductions > before) steps.push_back(info.step);
  }
  return steps;
}

TEST(EarlyStop, StopsAfterSoManyEpochsWithoutALowerLoss) {
  RunConfig config = default_run_config();
  config.early_stop = 2;
  CheckpointInfo info;
  EXPECT_TRUE(reductions_of(config, {90, 80, 85, 79, 79, 80, 10}, info).empty());
  EXPECT_EQ(info.best_step, 40);
  EXPECT_EQ(info.best_loss_q24, 79);
  EXPECT_EQ(info.step, 60) << "the last epoch is not run";
  config.early_stop = 0;
  info = {};
  reductions_of(config, {90, 91, 92, 93, 94, 95, 96}, info);
  EXPECT_EQ(info.step, 70);
  EXPECT_EQ(info.best_step, 10);
}

TEST(EarlyStop, ARestOfAnEpochCountsByItsMean) {
  EXPECT_EQ(whole_epoch_loss(300, 3, 10), 1000);
  EXPECT_EQ(whole_epoch_loss(301, 3, 10), 1003);
  EXPECT_EQ(whole_epoch_loss(INT64_MAX / 4, 500, 1000), INT64_MAX / 4 * 2);
}

TEST(Plateau, FallsAfterPatienceAndWaitsAgain) {
  RunConfig config = default_run_config();
  config.schedule = ScheduleKind::kPlateau;
  config.plateau_patience = 2;
  CheckpointInfo info;
  EXPECT_EQ(reductions_of(config, {90, 91, 92, 93, 94, 80, 81, 82}, info),
            (std::vector<int64_t>{30, 50, 80}));
  config.schedule = ScheduleKind::kConstant;
  info = {};
  EXPECT_TRUE(reductions_of(config, {90, 91, 92, 93}, info).empty());
}

TEST(Plateau, TheRateFallsOncePerReduction) {
  Schedule schedule{.kind = ScheduleKind::kPlateau,
                    .peak = 0.5,
                    .steps = 100,
                    .warmup_steps = 4,
                    .plateau_factor = 0.25,
                    .reductions = 0};
  EXPECT_EQ(learning_rate(schedule, 1), 0.25);
  EXPECT_EQ(learning_rate(schedule, 99), 0.5);
  schedule.reductions = 2;
  EXPECT_EQ(learning_rate(schedule, 99), 0.5 / 16);
  schedule.reductions = INT64_MAX;
  EXPECT_EQ(learning_rate(schedule, 99), 0);
}

TEST(Settings, OfOtherOptimizersAndSchedulesAreRefused) {
  const auto message = [](const std::map<std::string, std::string>& settings) {
    const auto config = make_run_config(settings);
    return config.ok() ? std::string() : config.error().message;
  };
  EXPECT_EQ(message({{"optimizer", "adam"}, {"beta2", "0.99"}}), "");
  EXPECT_NE(message({{"optimizer", "adam"}, {"momentum", "0.8"}}).find("momentum and nesterov"),
            std::string::npos);
  EXPECT_NE(message({{"beta1", "0.8"}}).find("adam and adamw"), std::string::npos);
  EXPECT_NE(message({{"plateau-factor", "0.5"}}).find("one-cycle"), std::string::npos);
  EXPECT_EQ(message({{"early-stop", "3"}}), "");
  EXPECT_NE(message({{"validation", "1.5"}}).find("1.5"), std::string::npos);
}

TEST(Settings, DefaultsFollowTheOptimizer) {
  const auto config = [](const char* optimizer) {
    return *make_run_config({{"optimizer", optimizer}, {"model", "lenet5"}});
  };
  EXPECT_EQ(config("adam").learning_rate, 1e-3);
  EXPECT_EQ(config("adam").weight_decay, 0);
  EXPECT_EQ(config("adamw").weight_decay, 0.01);
  EXPECT_EQ(config("momentum").weight_decay, 5e-4);
  EXPECT_GT(config("nesterov").learning_rate, 1e-3);
}

}  // namespace
}  // namespace mantissa
