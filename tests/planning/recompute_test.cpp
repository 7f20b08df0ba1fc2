// Values that are not kept for the backward pass are computed again, with the same bits.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

struct Outcome {
  std::string state;
  std::vector<StepResult> steps;
};

Outcome outcome(const HarnessOptions& options, int steps) {
  Harness harness(options);
  Outcome result;
  for (int i = 0; i < steps; ++i) result.steps.push_back(harness.step());
  result.state = harness.state_sha256();
  return result;
}

int64_t recomputations(const Program& program) {
  return std::count_if(program.instructions.begin(), program.instructions.end(),
                       [](const Instruction& i) { return i.again; });
}

void expect_same(HarnessOptions options, int steps, int draws) {
  const Outcome kept = outcome(options, steps);
  for (int draw = 1; draw <= draws; ++draw) {
    SCOPED_TRACE(options.model + " " + options.format + ", draw " + std::to_string(draw));
    options.retention_key = draw;
    EXPECT_GT(recomputations(Harness(options).program()), 0);
    const Outcome again = outcome(options, steps);
    EXPECT_EQ(again.state, kept.state);
    for (int i = 0; i < steps; ++i) expect_same_counts(again.steps[i], kept.steps[i]);
  }
}

TEST(Recompute, GivesTheSameBits) {
  constexpr NetworkInFormat kCases[] = {
      {"mlp", "bfp8"},
      {"lenet5", "bfp:g=8,gr=stochastic"},
      {"lenet5", "dfp:warmup=2"},
      {"resnet8", "bfp8"},
      {"resnet8", "bfp8-text"},
      {"resnet8", "dfp:warmup=2,every=2"},
      {"resnet8", "dfp:decide=pass,warmup=2"},
      {"resnet8", "bfp:w=4,a=4,linear=8,unsigned=yes,block=channel"},
      {"resnet8", "bfp:linear=16,a=12"},
      {"resnet8", "fp32"},
      {"mobilenet_v2", "bfp8", 0.125},
      {"mobilenet_v2", "bfp:inversion=yes", 0.125},
      {"mobilenet_v2", "dfp:inversion=yes,decide=pass,warmup=2", 0.125},
      {"resnet8", "bfp:inversion=yes"},
      {"resnet8", "dfp:inversion=yes,decide=pass,warmup=2"},
      {"vgg8b", "bfp:inversion=yes,linear=16", 0.125},
      {"inception_small", "bfp:inversion=yes,g=8", 0.125},
      {"inception_small", "bfp:g=8", 0.125},
      {"vgg16_bn", "dfp8", 0.03125},
      {"squeezenet", "bfp8", 0.125}};
  for (const NetworkInFormat& network : kCases) expect_same(small_steps(network), 3, 3);
}

TEST(Recompute, OverMicroBatchesClippingAndScalarKernels) {
  expect_same({.model = "resnet8", .micro_batch_size = 4, .clip_norm = 0.3}, 3, 2);
  expect_same({.model = "resnet8", .format = "bfp:inversion=yes", .micro_batch_size = 4}, 3, 2);
  expect_same({.model = "lenet5", .format = "dfp:warmup=2", .micro_batch_size = 4}, 4, 2);
  expect_same({.model = "resnet8", .batch_size = 4, .micro_batch_size = 4, .isa = Isa::kScalar}, 2,
              1);
}

// Recomputed mantissas equal those that were there before.
TEST(Recompute, RestoresTheValues) {
  HarnessOptions options{.model = "resnet8", .reuses_memory = false, .retention_key = 7};
  Harness harness(options);
  harness.train(3);
  const Program& program = harness.program();
  int compared = 0;
  for (const Instruction& again : program.instructions) {
    if (!again.again) continue;
    const auto first = std::find_if(
        program.instructions.begin(), program.instructions.end(), [&](const Instruction& i) {
          return is_forward(i) && i.output().exponent == again.output().exponent;
        });
    ASSERT_NE(first, program.instructions.end());
    EXPECT_NE(first->output().index, again.output().index);
    const auto data = [&](const Instruction& i) {
      const Tensor& out =
          harness.executor().context(static_cast<int>(&i - program.instructions.data())).output();
      return std::string(out.as<char>(), static_cast<size_t>(out.count()));
    };
    // Updates come later: with new weights the values would differ.
    EXPECT_EQ(data(again), data(*first)) << again.name;
    ++compared;
  }
  EXPECT_GT(compared, 5);
}

}  // namespace
}  // namespace mantissa::testing
