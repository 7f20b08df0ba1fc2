// Real is double: the same bits for everything that a double can hold.
#include "numerics/real.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/test_fixed_point.h"

namespace mantissa {
namespace {

// Numbers of all sizes, with few bits or many, near each other and far apart.
double any_double() {
  const auto bits = *rc::gen::arbitrary<int64_t>() >> *rc::gen::inRange(0, 60);
  return std::ldexp(static_cast<double>(bits), *rc::gen::inRange(-120, 120));
}

uint64_t bits_of(double number) { return std::bit_cast<uint64_t>(number == 0 ? 0.0 : number); }

RC_GTEST_PROP(Real, ArithmeticIsThatOfDouble, ()) {
  const double a = any_double(), b = *rc::gen::element(any_double(), a, -a, a * 3);
  const Real x(a), y(b);
  RC_ASSERT(bits_of(x.to_double()) == bits_of(a));
  RC_ASSERT(bits_of((x + y).to_double()) == bits_of(a + b));
  RC_ASSERT(bits_of((x - y).to_double()) == bits_of(a - b));
  RC_ASSERT(bits_of((x * y).to_double()) == bits_of(a * b));
  RC_ASSERT(bits_of((-x).to_double()) == bits_of(-a));
  RC_ASSERT(bits_of(abs(x).to_double()) == bits_of(std::abs(a)));
  RC_ASSERT(bits_of(ldexp(x, -7).to_double()) == bits_of(std::ldexp(a, -7)));
  RC_ASSERT((x < y) == (a < b));
  RC_ASSERT((x == y) == (a == b));
  if (b != 0) RC_ASSERT(bits_of((x / y).to_double()) == bits_of(a / b));
  RC_ASSERT(bits_of(sqrt(abs(x)).to_double()) == bits_of(std::sqrt(std::abs(a))));
}

// Sums that nearly cancel, and roots and quotients next to exact ones.
RC_GTEST_PROP(Real, NearTies, ()) {
  const double a = any_double();
  RC_PRE(a != 0);  // the neighbours of 0 are below the normal numbers
  const double b =
      -std::ldexp(std::nextafter(a, *rc::gen::element(-1e300, 1e300)), *rc::gen::inRange(-70, 70));
  RC_ASSERT(bits_of((Real(a) + Real(b)).to_double()) == bits_of(a + b));
  const auto root = static_cast<double>(*rc::gen::inRange<int64_t>(1, int64_t{1} << 26));
  for (const double square : {root * root, root * root - 1, root * root + 1}) {
    RC_ASSERT(bits_of(sqrt(Real(square)).to_double()) == bits_of(std::sqrt(square)));
    RC_ASSERT(bits_of((Real(square) / Real(root)).to_double()) == bits_of(square / root));
  }
}

RC_GTEST_PROP(Real, IntegersAreRoundedAsByConversion, (int64_t n)) {
  RC_ASSERT(bits_of(Real(n).to_double()) == bits_of(static_cast<double>(n)));
  const __int128 wide = static_cast<__int128>(n) * *rc::gen::arbitrary<int64_t>();
  RC_ASSERT(bits_of(Real(wide).to_double()) == bits_of(static_cast<double>(wide)));
  const auto positive = static_cast<unsigned __int128>(wide);
  RC_ASSERT(bits_of(Real(positive).to_double()) == bits_of(static_cast<double>(positive)));
}

RC_GTEST_PROP(Real, FixedPoint, ()) {
  const double a = any_double();
  const int shift = *rc::gen::inRange(-150, 150), bits = *rc::gen::inRange(1, 60);
  const int64_t limit = (int64_t{1} << bits) - *rc::gen::inRange(0, 2);
  RC_ASSERT(to_fixed_point(Real(a), shift, limit) == to_fixed_point(a, shift, limit));
  RC_ASSERT(fixed_point_shift(Real(a), bits) == fixed_point_shift(a, bits));
}

TEST(Real, WhatIsNotFinite) {
  const Real zero, one(1);
  EXPECT_FALSE((one / zero).is_finite());
  EXPECT_FALSE((zero / zero).is_finite());
  EXPECT_FALSE(sqrt(-one).is_finite());
  EXPECT_FALSE(Real(std::numeric_limits<double>::infinity()).is_finite());
  EXPECT_FALSE(Real(std::nan("")).is_finite());
  for (const Real& result : {one / zero + one, (one / zero) * zero, one - one / zero,
                             one / (one / zero), sqrt(one / zero), ldexp(one / zero, 3)}) {
    EXPECT_FALSE(result.is_finite());
    EXPECT_TRUE(std::isnan(result.to_double()));
    EXPECT_EQ(to_fixed_point(result, 5, 100), 0);
  }
  Real small(0.5), large(2);
  for (int i = 0; i < 100; ++i) {
    small = small * small;
    large = large * large;
  }
  EXPECT_TRUE(small.is_zero());
  EXPECT_FALSE(large.is_finite());
  EXPECT_TRUE(zero.is_zero());
  EXPECT_FALSE((one / zero).is_zero());
  EXPECT_EQ(ldexp(one, 5000).to_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ldexp(one, -5000).to_double(), 0);
}

}  // namespace
}  // namespace mantissa
