// A batch that the network fits (almost) perfectly tells nothing about the size of the next
// gradient. The exponent of the weight-gradient sums must leave room for it.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/ops.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

Graph classifier() {
  GraphBuilder builder("classifier", Shape{4, 4, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()},
                          {{"means", WholeList{128}}});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 3}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

class PerfectFit : public ::testing::TestWithParam<int> {};

// With several micro-batches an overflow of their sums would go unseen: the update has to arrive.
TEST_P(PerfectFit, AMistakeAfterAPerfectBatchIsLearnedFrom) {
  const int micro_batches = GetParam();
  const Graph graph = with_loss(classifier());
  auto state = State::create(training_layout(graph, Format{}, OptimizerKind::kMomentum));
  ASSERT_TRUE(state.ok());
  initialise(graph, Format{}, 1, *state);
  const ParameterState& bias = state->layout().parameters[1];
  auto* biases = state->data<int16_t>(bias.mantissa);
  biases[0] = 19 << 10;  // e^-19 is 2^-27.4: gradients of a few units of 2^-30
  *state->data<int16_t>(bias.exponent) = -10;
  const ParameterState& weights = state->layout().parameters[0];
  std::memset(state->bytes(weights.mantissa).data(), 0, state->bytes(weights.mantissa).size());

  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  auto program =
      compile(graph, {.micro_batch_size = 1, .micro_batches = micro_batches}, {&table, 1});
  ASSERT_TRUE(program.ok());
  auto arena = AlignedMemory::create(program->arena_bytes);
  ASSERT_TRUE(arena.ok());
  ThreadPool pool(1);
  Executor executor(graph, *program, *state, arena->span(), pool, best_isa());
  const std::vector<uint8_t> pixels(static_cast<size_t>(16 * micro_batches), 200);
  const std::vector<int32_t> right(static_cast<size_t>(micro_batches), 0);
  const std::vector<int32_t> wrong(static_cast<size_t>(micro_batches), 2);
  // Several perfect steps: this also finds an exponent that falls a little in every step.
  for (int step = 0; step < 40; ++step) {
    const auto result = executor.train_step(inputs(pixels, right), {.learning_rate = 0});
    ASSERT_TRUE(result.ok()) << result.error().message;
    ASSERT_LT(result->loss, 1e-7);
  }
  const StepScalars scalars{.learning_rate = 0.5, .gradient_scale = 1.0 / micro_batches};
  const auto result = executor.train_step(inputs(pixels, wrong), scalars);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->loss, 15);
  const double unit = std::ldexp(1.0, *state->data<int16_t>(bias.exponent));
  EXPECT_NEAR(biases[0] * unit, 18.5, 0.01);
  EXPECT_NEAR(biases[2] * unit, 0.5, 0.01);
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, PerfectFit, ::testing::Values(1, 2, 8));

}  // namespace
}  // namespace mantissa::testing
