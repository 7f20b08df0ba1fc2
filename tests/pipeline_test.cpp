// Stages that work at the same time compute the bits of one process.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

using pipeline::FlushForm;

// Five steps: the state after them, and all that they count but for mispredictions, since each
// micro-batch in flight has predictors of its own for values.
void expect_same_as_one_stage(HarnessOptions options) {
  SCOPED_TRACE(options.model + " " + options.format + " in " + std::to_string(options.stages));
  Harness stages(options);
  options.stages = 0;
  Harness one(options);
  for (int i = 0; i < 5; ++i) {
    StepResult of_stages = stages.step();
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

}  // namespace
}  // namespace mantissa::testing
