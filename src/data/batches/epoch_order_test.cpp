#include "data/batches/epoch_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace mantissa {
namespace {

TEST(EpochOrder, IsFixed) {
  // Known answers: another order would change every training run.
  EXPECT_EQ(epoch_order(1, 0, 8), (std::vector<uint32_t>{1, 2, 7, 4, 5, 3, 0, 6}));
  EXPECT_EQ(epoch_order(1, 1, 8), (std::vector<uint32_t>{7, 6, 2, 0, 4, 3, 1, 5}));
  EXPECT_NE(epoch_order(1, 0, 100), epoch_order(1, 1, 100));
  EXPECT_NE(epoch_order(1, 0, 100), epoch_order(2, 0, 100));
  EXPECT_TRUE(epoch_order(1, 0, 0).empty());
  EXPECT_EQ(epoch_order(1, 0, 1), std::vector<uint32_t>{0});
}

RC_GTEST_PROP(EpochOrder, IsAPermutation, (uint64_t seed, uint32_t epoch)) {
  const auto count = *rc::gen::inRange<int64_t>(0, 300);
  std::vector<uint32_t> order = epoch_order(seed, epoch, count);
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < count; ++i) RC_ASSERT(order[static_cast<size_t>(i)] == i);
}

TEST(EpochOrder, GivesEveryPermutationEquallyOften) {
  std::vector<int> seen(24);
  for (uint32_t epoch = 0; epoch < 24 * 200; ++epoch) {
    const auto order = epoch_order(5, epoch, 4);
    std::vector<uint32_t> permutation = {0, 1, 2, 3};
    size_t number = 0;
    while (permutation != order) {
      std::next_permutation(permutation.begin(), permutation.end());
      ++number;
    }
    ++seen[number];
  }
  for (const int count : seen) {  // 200 expected, standard deviation 14
    EXPECT_GT(count, 130);
    EXPECT_LT(count, 270);
  }
}

}  // namespace
}  // namespace mantissa
