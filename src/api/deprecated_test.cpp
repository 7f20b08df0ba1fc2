// Programs that name the types of results as version 0.1 had them.
#include "mantissa/deprecated.h"

#include <gtest/gtest.h>

#include "mantissa/mantissa.h"
#include "mantissa/runs.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace mantissa {
namespace {

TEST(Deprecated, AnErrorStandsBesideAnEmptyResult) {
  const TrainingOutcome run = train({{"model", "no such network"}, {"out", "run"}});
  EXPECT_EQ(run.exit, Exit::kInvalidInput);
  EXPECT_NE(run.error.find("no such network"), std::string::npos) << run.error;
  EXPECT_EQ(run.summary_json, "");
  std::string error;
  EXPECT_EQ(info("none", error).version, "");
  EXPECT_NE(error, "");
}

TEST(Deprecated, AResultStandsWithoutAnError) {
  const SimulateOutcome simulated = simulate({{"stages", "3"}});
  EXPECT_EQ(simulated.exit, Exit::kDone);
  EXPECT_EQ(simulated.error, "");
  EXPECT_NE(simulated.json, "");
}

TEST(Deprecated, AProblemBesideAResultIsItsError) {
  Predictions found;
  found.problems = {"a.png: is damaged"};
  found.problem = {Exit::kFailed, "1 of 2 pictures could not be read"};
  const PredictionOutcome predictions = Outcome<Predictions>(found);
  EXPECT_EQ(predictions.exit, Exit::kFailed);
  EXPECT_EQ(predictions.error, "1 of 2 pictures could not be read");
  EXPECT_EQ(predictions.problems.size(), 1u);
  const VerifyOutcome compared = Outcome<Comparison>(
      Comparison{.differing_tensors = {}, .notes = {}, .problem = {Exit::kFailed, ""}});
  EXPECT_EQ(compared.exit, Exit::kFailed);
  EXPECT_EQ(compared.error, "");
}

}  // namespace
}  // namespace mantissa
