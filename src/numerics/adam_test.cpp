#include "numerics/adam.h"

#include <gtest/gtest.h>

#include <set>

namespace mantissa {
namespace {

TEST(Adam, PowersBySquaring) {
  EXPECT_EQ(power(0.9, 0), 1);
  EXPECT_EQ(power(0.5, 10), 0x1p-10);
  EXPECT_EQ(power(0, 1), 0);
  long double exact = 1;
  for (int64_t n = 1; n <= 20000; ++n) {
    exact *= 0.999L;
    EXPECT_NEAR(power(0.999, n), static_cast<double>(exact), 1e-12);
  }
  EXPECT_LT(power(0.9999, int64_t{1} << 40), 1e-300);
}

TEST(Adam, RootsAreFloors) {
  for (int64_t root = 0; root < (int64_t{1} << 31); root = root * 3 / 2 + 1) {
    EXPECT_EQ(integer_square_root(root * root), root);
    EXPECT_EQ(integer_square_root(root * root + 2 * root), root);
    if (root > 0) {
      EXPECT_EQ(integer_square_root(root * root - 1), root - 1);
    }
  }
  EXPECT_EQ(integer_square_root(int64_t{1} << 62), int64_t{1} << 31);
}

// In 2^shift consecutive steps each offset comes once. So a change of 2^-shift units gets through
// once.
TEST(Adam, OffsetsRunThroughTheInterval) {
  for (const int shift : {0, 1, 5, 11}) {
    for (const int64_t first : {0, 7, 1000003}) {
      std::set<int64_t> offsets;
      for (int64_t step = first; step < first + (1 << shift); ++step) {
        offsets.insert(rounding_offset(step, shift));
      }
      EXPECT_EQ(offsets.size(), size_t{1} << shift);
      EXPECT_EQ(*offsets.begin(), 0);
      EXPECT_EQ(*offsets.rbegin(), (1 << shift) - 1);
    }
  }
}

}  // namespace
}  // namespace mantissa
