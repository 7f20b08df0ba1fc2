// Cosines and sines in Q30 against long double.
#include "scalars/circle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace mantissa {
namespace {

constexpr long double kMostError = 0x1p-29L;

void check(uint64_t angle) {
  const long double radians =
      std::ldexp(static_cast<long double>(angle), -63) * std::numbers::pi_v<long double>;
  const RefCirclePoint found = ref_circle_q30(angle);
  ASSERT_NEAR(std::ldexp(static_cast<long double>(found.cosine), -30), std::cos(radians),
              kMostError)
      << angle;
  ASSERT_NEAR(std::ldexp(static_cast<long double>(found.sine), -30), std::sin(radians), kMostError)
      << angle;
  ASSERT_LE(std::abs(int64_t{found.cosine}), int64_t{1} << 30);
  ASSERT_LE(std::abs(int64_t{found.sine}), int64_t{1} << 30);
}

TEST(Circle, CosinesAndSinesAreWithinTheirError) {
  for (uint64_t i = 0; i < 200000; ++i) check(i * 0x9e3779b97f4a7c15U);
  for (uint64_t eighth = 0; eighth < 8; ++eighth) {
    for (uint64_t near = 0; near < 64; ++near) {
      check((eighth << 61) + (uint64_t{1} << near));
      check((eighth << 61) - (uint64_t{1} << near));
    }
  }
}

TEST(Circle, QuartersAreExact) {
  const auto at = [](uint64_t quarter) {
    const RefCirclePoint point = ref_circle_q30(quarter << 62);
    return std::pair(point.cosine, point.sine);
  };
  constexpr int32_t kOne = 1 << 30;
  EXPECT_EQ(at(0), std::pair(kOne, 0));
  EXPECT_EQ(at(1), std::pair(0, kOne));
  EXPECT_EQ(at(2), std::pair(-kOne, 0));
  EXPECT_EQ(at(3), std::pair(0, -kOne));
}

}  // namespace
}  // namespace mantissa
