// block=channel in whole runs: it learns, and the frozen network computes as the trained one.
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "tests/frozen/frozen.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kBatch = 64;
const Format kFormat{.tensor_blocks = false};

// Whether the output channels of any parameter have more than one exponent.
bool exponents_differ(const State& state) {
  for (const ParameterState& parameter : state.layout().parameters) {
    if (parameter.exponent < 0) continue;
    const auto* exponents = state.data<int16_t>(parameter.exponent);
    const int64_t count = state.layout().tensors[parameter.exponent].shape.count();
    if (std::any_of(exponents, exponents + count, [&](int16_t e) { return e != exponents[0]; })) {
      return true;
    }
  }
  return false;
}

TEST(ChannelBlocks, LearnAndFreeze) {
  const TestFolder folder;
  const auto path = folder / "frozen.safetensors";
  const struct {
    const char* model;
    int steps;
    double accuracy;  // 0.1 is chance
  } kCases[] = {{"lenet5", 100, 0.6}, {"resnet8", 25, 0.2}};
  for (const auto& [model, steps, accuracy] : kCases) {
    SCOPED_TRACE(model);
    Harness harness({.model = model,
                     .format = to_string(kFormat),
                     .batch_size = kBatch,
                     .micro_batch_size = kBatch,
                     .threads = 2});
    harness.train_to_rest(steps);
    EXPECT_TRUE(exponents_differ(harness.state()));
    auto frozen = freeze_on(harness, model, kFormat, kBatch, 320);
    ASSERT_TRUE(frozen.ok());
    EXPECT_TRUE(exponents_differ(frozen->state));

    ExampleSet test = fashion_mnist().test;
    test.count = 640;
    const ClassificationEvaluation evaluation = evaluate_with(*frozen, kBatch, 2, best_isa(), test);
    EXPECT_GT(evaluation.accuracy(), accuracy);
    EXPECT_NEAR(evaluation.accuracy(), evaluate_unfrozen(harness, kFormat, kBatch, test).accuracy,
                0.01);

    test.count = 50;
    const double loss = evaluate_with(*frozen, 50, 1, best_isa(), test).loss;
    EXPECT_EQ(evaluate_with(*frozen, 7, 3, Isa::kScalar, test).loss, loss);
    ASSERT_TRUE(save_frozen(path, *frozen).ok());
    auto loaded = load_frozen(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(evaluate_with(*loaded, 50, 2, best_isa(), test).loss, loss);
  }
}

TEST(ChannelBlocks, UseTheirMemoryAsPlanned) {
  // The same bits without reuse of memory: no instruction overwrites data that another needs.
  HarnessOptions options{.model = "mobilenet_v2", .format = to_string(kFormat), .width = 0.125};
  Harness packed(options);
  options.reuses_memory = false;
  Harness spread(options);
  packed.train(2), spread.train(2);
  EXPECT_EQ(packed.state_sha256(), spread.state_sha256());
}

}  // namespace
}  // namespace mantissa::testing
