// Invariant 1: the same bits over threads, instruction sets, arenas and ways to hold micro-batches.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int kSteps = 30;

std::string hash_after(const HarnessOptions& options, int steps = kSteps) {
  Harness harness(options);
  harness.train(steps);
  return harness.state_sha256();
}

std::vector<Isa> instruction_sets() {
  std::vector<Isa> sets;
  for (const Isa isa : kAllIsas) {
    if (is_supported(isa)) sets.push_back(isa);
  }
  return sets;
}

struct Case {
  const char* model;
  const char* format;
  int steps = kSteps;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model << ' ' << c.format; }

class SameBits : public ::testing::TestWithParam<Case> {};

TEST_P(SameBits, OverThreadsAndInstructionSets) {
  const auto [model, format, steps] = GetParam();
  const std::string expected =
      hash_after({.model = model, .format = format, .isa = Isa::kScalar}, steps);
  for (const Isa isa : instruction_sets()) {
    for (const int threads : {1, 2, 3, 5, 8}) {
      // All sizes of the pool for the fastest set; for the slower ones an even and an odd one.
      if (isa < best_isa() && threads != 2 && threads != 3) continue;
      const HarnessOptions options{
          .model = model, .format = format, .threads = threads, .isa = isa};
      EXPECT_EQ(hash_after(options, steps), expected)
          << isa_name(isa) << ", " << threads << " threads";
    }
  }
  if (best_isa() < Isa::kAvx512Vnni) GTEST_SKIP() << "this CPU has no AVX-512 VNNI";
}

INSTANTIATE_TEST_SUITE_P(Networks, SameBits,
                         ::testing::Values(Case{"mlp", "bfp8"}, Case{"resnet8", "bfp8", 4},
                                           Case{"mlp", "bfp:g=8,gr=stochastic"},
                                           Case{"lenet5", "bfp:g=8", 8},
                                           Case{"mobilenet_blocks", "bfp8", 1},
                                           Case{"resnet8", "bfp:g=8,gr=stochastic", 3}));

TEST(SameBits, TwoMicroBatchesInOneThreadOrTwo) {
  for (const char* model : {"mlp", "lenet5", "resnet8"}) {
    const HarnessOptions one{.model = model, .micro_batch_size = 8, .threads = 1};
    HarnessOptions two = one;
    two.threads = 2;
    EXPECT_EQ(hash_after(one), hash_after(two)) << model;
  }
}

// Predicting an exponent may cost time, never a bit.
TEST(SameBits, PredictedOrExactExponents) {
  for (const char* model : {"mlp", "lenet5", "resnet8"}) {
    for (const char* gradients : {"g=16", "g=8"}) {
      HarnessOptions options{.model = model, .format = std::string("bfp:") + gradients};
      const std::string predicted = hash_after(options);
      options.format += ",exponents=exact";
      EXPECT_EQ(hash_after(options), predicted) << model << " " << gradients;
    }
  }
}

TEST(SameBits, OtherSeedsAndFormatsDiffer) {
  const std::string expected = hash_after({.model = "mlp"}, 3);
  EXPECT_NE(hash_after({.model = "mlp", .seed = 2}, 3), expected);
  EXPECT_NE(hash_after({.model = "mlp", .format = "bfp:acc=8"}, 3), expected);
  EXPECT_NE(hash_after({.model = "mlp", .optimizer = OptimizerKind::kSgd}, 3), expected);
}

}  // namespace
}  // namespace mantissa::testing
