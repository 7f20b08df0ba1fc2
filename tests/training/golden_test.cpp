// Whole training runs have known digests: a change that alters bits must say so here.
#include <gtest/gtest.h>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

struct Golden {
  const char* model;
  const char* format;
  OptimizerKind optimizer;
  int64_t micro_batch_size;
  double clip_norm;          // 0: no clipping
  const char* state_sha256;  // after 20 steps of 16 examples, seed 1
  double width = 1;
};

constexpr Golden kGolden[] = {
#include "tests/training/golden.inc"
};

TEST(Golden, TrainingRunsHaveTheirDigests) {
  for (const Golden& golden : kGolden) {
    Harness harness({.model = golden.model,
                     .format = golden.format,
                     .optimizer = golden.optimizer,
                     .micro_batch_size = golden.micro_batch_size,
                     .clip_norm = golden.clip_norm,
                     .width = golden.width});
    harness.train(20);
    EXPECT_EQ(harness.state_sha256(), golden.state_sha256)
        << golden.model << " " << golden.format << " " << optimizer_name(golden.optimizer)
        << " micro-batch " << golden.micro_batch_size << " clip " << golden.clip_norm << " width "
        << golden.width;
  }
}

}  // namespace
}  // namespace mantissa::testing
