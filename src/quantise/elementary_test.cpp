// The functions against those of the library.
#include "quantise/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mantissa::quantise {
namespace {

TEST(Elementary, FunctionsAreThoseOfTheLibrary) {
  for (int i = -4000; i <= 4000; ++i) {
    const double x = i / 200.0, e = std::exp(x);
    EXPECT_NEAR(exponential(x), e, 1e-15 * e);
    EXPECT_NEAR(hyperbolic_tangent(x), std::tanh(x), 1e-15);
    EXPECT_NEAR(natural_logarithm(e), x, 1e-15 * std::max(1.0, std::abs(x)));
    EXPECT_NEAR(area_tangent(i / 4001.0), std::atanh(i / 4001.0), 3e-15);
  }
  EXPECT_EQ(hyperbolic_tangent(1e300), 1);
  EXPECT_EQ(hyperbolic_tangent(-1e300), -1);
}

}  // namespace
}  // namespace mantissa::quantise
