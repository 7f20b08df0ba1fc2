// Steps of dynamic fixed point, with traps of the floating-point unit for every rounding. If an
// instruction computes with floats, and the result is not exact, the program ends.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <csignal>
#include <cstdlib>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int kTraps = FE_ALL_EXCEPT;

bool inside = false;  // an instruction of the program runs

// The executor calls it before and after each instruction.
int64_t toggle_traps() {
  inside = !inside;
  std::feclearexcept(FE_ALL_EXCEPT);
  return inside ? feenableexcept(kTraps) : fedisableexcept(kTraps);
}

// Workers only run instructions, so traps are enabled on each of them for good.
void enable_on_workers(ThreadPool& pool) {
  std::atomic<int64_t> arrived{0};
  const int64_t threads = pool.size();
  pool.parallel_for(threads, [&](int64_t, int) {
    ++arrived;
    while (arrived < threads) {  // so that each thread takes one task
    }
    std::feclearexcept(FE_ALL_EXCEPT);  // earlier tests of this process left some
    feenableexcept(kTraps);
  });
  fedisableexcept(kTraps);  // on this thread
}

// Ends with exit code 0, or by the trap.
[[noreturn]] void step_with_traps(const HarnessOptions& options) {
  Harness harness(options);
  enable_on_workers(harness.pool());
  std::vector<int64_t> times(harness.program().instructions.size());
  harness.executor().set_profile(times, toggle_traps);
  for (int i = 0; i < 4; ++i) harness.step();
  std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
}

void expect_no_trap(const HarnessOptions& options) {
  EXPECT_EXIT(step_with_traps(options), ::testing::ExitedWithCode(0), "")
      << options.model << " " << options.format << " " << optimizer_name(options.optimizer);
}

TEST(NoFloat, StepsOfDynamicFixedPointTrapNothing) {
  for (const auto& [model, width] : {std::pair{"mlp", 1.0},
                                     {"lenet5", 1.0},
                                     {"resnet8", 1.0},
                                     {"mobilenet_v2", 0.125},
                                     {"inception_small", 0.125},
                                     {"squeezenet", 0.125}}) {
    expect_no_trap({.model = model, .format = "dfp:warmup=3", .threads = 2, .width = width});
  }
  for (const Optimizer& row : optimizers()) {
    expect_no_trap({.model = "resnet8",
                    .format = "dfp:g=8,gr=stochastic,round=stochastic,acc=4,warmup=2",
                    .optimizer = row.kind,
                    .micro_batch_size = 8,
                    .clip_norm = 0.1});
  }
  expect_no_trap({.model = "resnet8", .format = "dfp:w=12,a=12,linear=16,warmup=1"});
  expect_no_trap({.model = "lenet5", .format = "dfp:decide=pass"});
  expect_no_trap({.model = "lenet5", .format = "dfp:warmup=2", .loss = ops::LossKind::kSigmoids});
}

// The traps catch steps that do compute with floats.
TEST(NoFloat, TheTrapsWork) {
  EXPECT_EXIT(step_with_traps({.format = "fp32"}), ::testing::KilledBySignal(SIGFPE), "");
  if (!is_supported(Isa::kAvx2)) return;
  EXPECT_EXIT(step_with_traps({.optimizer = OptimizerKind::kAdam, .threads = 2}),
              ::testing::KilledBySignal(SIGFPE), "");
}

}  // namespace
}  // namespace mantissa::testing
