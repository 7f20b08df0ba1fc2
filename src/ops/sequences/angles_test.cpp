// Angles of positions against long double.
#include "ops/sequences/angles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "scalars/circle.h"

namespace mantissa::ops {
namespace {

using LongDouble = long double;

TEST(Angles, ArePowersOfTheBase) {
  for (const double base : {1.0, 1.5, 100.0, 10000.0, 500000.0, 1e9}) {
    for (const int64_t pairs : {1, 2, 3, 4, 16, 31, 64, 128, 2048}) {
      const Angles angles = angles_of_pairs(pairs, base);
      ASSERT_EQ(std::ssize(angles), pairs);
      for (int64_t i = 0; i < pairs; ++i) {
        const LongDouble radians = std::pow(
            static_cast<LongDouble>(base), -static_cast<LongDouble>(i) / static_cast<LongDouble>(pairs));
        const LongDouble turns = radians / (2 * std::numbers::pi_v<LongDouble>);
        const LongDouble found = std::ldexp(static_cast<LongDouble>(angles[i]), -64);
        ASSERT_NEAR(found, turns, turns * 0x1p-50L + 0x1p-64L) << base << " " << pairs << " " << i;
      }
    }
  }
}

TEST(Angles, AreDividedByFactors) {
  const std::vector<int64_t> factors = {kFactorUnit, kFactorUnit + 1, 11 * kFactorUnit / 2,
                                        kMostFactor};
  const Angles plain = angles_of_pairs(4, 500000), divided = angles_of_pairs(4, 500000, factors),
               all = angles_of_pairs(4, 500000, std::vector<int64_t>{8 * kFactorUnit});
  EXPECT_EQ(divided[0], plain[0]);
  for (size_t i = 0; i < factors.size(); ++i) {
    const LongDouble factor = std::ldexp(static_cast<LongDouble>(factors[i]), -kFactorBits);
    ASSERT_NEAR(static_cast<LongDouble>(divided[i]), plain[i] / factor,
                plain[i] / factor * 0x1p-50L + 2);
    EXPECT_NEAR(static_cast<LongDouble>(all[i]), plain[i] / 8.0L, plain[i] * 0x1p-52L + 2);
  }
}

// The whole way to cosines and sines, up to the last position.
TEST(Angles, CosinesAndSinesOfFarPositions) {
  for (const double base : {10000.0, 500000.0}) {
    for (const int64_t pairs : {4, 32, 128}) {
      const Angles angles = angles_of_pairs(pairs, base);
      for (int64_t i = 0; i < pairs; ++i) {
        for (const uint64_t position : {0, 1, 2, 100, 1023, 8191, 65535}) {
          const LongDouble radians =
              static_cast<LongDouble>(position) *
              std::pow(static_cast<LongDouble>(base),
                       -static_cast<LongDouble>(i) / static_cast<LongDouble>(pairs));
          const RefCirclePoint found = ref_circle_q30(angles[i] * position);
          const LongDouble most = 0x1p-29L + 0x1p-33L;
          ASSERT_NEAR(std::ldexp(static_cast<LongDouble>(found.cosine), -kCircleBits),
                      std::cos(radians), most);
          ASSERT_NEAR(std::ldexp(static_cast<LongDouble>(found.sine), -kCircleBits),
                      std::sin(radians), most);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mantissa::ops
