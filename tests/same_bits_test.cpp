// Invariant 1: the same bits over threads, instruction sets, arenas and ways to hold micro-batches.
#include <gtest/gtest.h>

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
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512Vnni}) {
    if (isa <= best_isa()) sets.push_back(isa);
  }
  return sets;
}

class SameBits : public ::testing::TestWithParam<std::string> {};

TEST_P(SameBits, OverThreadsAndInstructionSets) {
  const std::string expected = hash_after({.model = GetParam(), .isa = Isa::kScalar});
  for (const Isa isa : instruction_sets()) {
    for (const int threads : {1, 2, 3, 5, 8}) {
      // The matrix of the scalar and the fastest set is complete; between them one size will do.
      if (isa == Isa::kAvx2 && threads != 2 && best_isa() > Isa::kAvx2) continue;
      EXPECT_EQ(hash_after({.model = GetParam(), .threads = threads, .isa = isa}), expected)
          << isa_name(isa) << ", " << threads << " threads";
    }
  }
  if (best_isa() < Isa::kAvx512Vnni) GTEST_SKIP() << "this CPU has no AVX-512 VNNI";
}

INSTANTIATE_TEST_SUITE_P(Networks, SameBits, ::testing::Values("mlp", "resnet8"));

TEST(SameBits, TwoMicroBatchesInOneThreadOrTwo) {
  for (const char* model : {"mlp", "lenet5", "resnet8"}) {
    const HarnessOptions one{.model = model, .micro_batch_size = 8, .threads = 1};
    HarnessOptions two = one;
    two.threads = 2;
    EXPECT_EQ(hash_after(one), hash_after(two)) << model;
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
