#include "base/checked.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <limits>

namespace mantissa {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(Checked, AnswersNothingOnOverflow) {
  EXPECT_EQ(checked_add(kMax - 1, int64_t{1}), kMax);
  EXPECT_EQ(checked_add(kMax, int64_t{1}), std::nullopt);
  EXPECT_EQ(checked_mul(kMin, int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_mul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(checked_mul(uint32_t{1} << 16, uint32_t{1} << 16), std::nullopt);
  EXPECT_EQ(checked_product<int64_t>({}), 1);
  EXPECT_EQ(checked_product<int64_t>({3, 5, 7}), 105);
  EXPECT_EQ(checked_product<int64_t>({int64_t{1} << 32, int64_t{1} << 31}), std::nullopt);
}

RC_GTEST_PROP(Checked, AgreesWithWiderArithmetic, (int64_t a, int64_t b)) {
  const auto fits = [](__int128 wide) { return wide >= kMin && wide <= kMax; };
  const __int128 sum = static_cast<__int128>(a) + b;
  const __int128 product = static_cast<__int128>(a) * b;
  RC_ASSERT(checked_add(a, b).has_value() == fits(sum));
  RC_ASSERT(checked_mul(a, b).has_value() == fits(product));
  RC_ASSERT(checked_add(a, b).value_or(0) == (fits(sum) ? static_cast<int64_t>(sum) : 0));
  RC_ASSERT(checked_mul(a, b).value_or(0) == (fits(product) ? static_cast<int64_t>(product) : 0));
}

TEST(Checked, RoundsUp) {
  EXPECT_EQ(round_up(0, 8), 0);
  EXPECT_EQ(round_up(1, 8), 8);
  EXPECT_EQ(round_up(8, 8), 8);
  EXPECT_EQ(divide_up(9, 8), 2);
  EXPECT_EQ(divide_up(16, 8), 2);
}

}  // namespace
}  // namespace mantissa
