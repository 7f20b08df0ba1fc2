// Bounds of directions against `wide` as an update by momentum computes it.
#include "ops/direction_bounds.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/update_parts.h"

namespace mantissa::ops {
namespace {

// A parameter whose direction is sums * gradient_unit + velocity * velocity_unit + V * decay_unit.
struct Subject {
  std::vector<int64_t> sums;
  std::vector<int16_t> velocity;
  std::vector<int32_t> values;  // V
  Real gradient_unit, velocity_unit, decay_unit;

  // Bounds where the sums are expected to have so many bits.
  DirectionBounds bounds(int gradient_bits) {
    const ScaledSketch sketch =
        sketch_direction(gradient_unit, velocity_unit, velocity.data(), gradient_bits, 64);
    const auto found = kernels::kUpdateReference.sketch_extremes({sums.data()}, sketch.sketch, 0,
                                                                 static_cast<int64_t>(sums.size()));
    return bounds_of(sketch, found, ldexp(decay_unit, kValueBits));
  }

  // The largest |wide|, and its exponent, for sums of 31 bits.
  std::pair<int64_t, int> largest_wide() const {
    int64_t of_gradient = 0, of_velocity = 0, of_value = 0;
    const Term terms[] = {{gradient_unit, kGradientBits, &of_gradient},
                          {velocity_unit, 15, &of_velocity},
                          {decay_unit, kValueBits, &of_value}};
    const int exponent = choose_multipliers(terms);
    int64_t largest = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const int64_t wide = sums[i] * of_gradient + velocity[i] * of_velocity + values[i] * of_value;
      largest = std::max(largest, std::abs(wide));
    }
    return {largest, exponent};
  }

  static constexpr int kValueBits = 23;
};

Real any_unit() { return ldexp(Real(*rc::gen::inRange(0, 1 << 20)), *rc::gen::inRange(-60, -30)); }

RC_GTEST_PROP(DirectionBounds, HoldTheLargestDirection, ()) {
  const size_t count = *rc::gen::inRange(1, 40);
  const int bits = *rc::gen::inRange(1, 31);
  const auto any = [&](int length) {
    const int most = (1 << length) - 1;
    return *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(-most, most));
  };
  const auto sums = any(bits), velocity = any(*rc::gen::inRange(1, 16)), values = any(23);
  Subject p{{sums.begin(), sums.end()},
            {velocity.begin(), velocity.end()},
            {values.begin(), values.end()},
            any_unit(),
            any_unit(),
            ldexp(any_unit(), -15)};
  const DirectionBounds bounds = p.bounds(bits + *rc::gen::inRange(-3, 4));
  const auto [largest, exponent] = p.largest_wide();
  const WideBounds wide = in_wide_units(bounds, exponent);
  RC_CLASSIFY(wide.least > 0, "say something");
  if (wide.least > 0) RC_ASSERT(wide.least <= largest && largest <= wide.most);
}

TEST(DirectionBounds, AreClose) {
  Subject p{{900'000'000, -17, 500'000}, {3, -32000, 12345},    {1 << 22, 0, -(1 << 22)},
            ldexp(Real(1), -40),         ldexp(Real(0.9), -30), ldexp(Real(1), -60)};
  for (const int bits : {30, 31, 32}) {
    const DirectionBounds found = p.bounds(bits);
    const auto [largest, exponent] = p.largest_wide();
    EXPECT_LT(ldexp(Real(largest), exponent) * Real(0.996), found.least) << bits;
    EXPECT_LT(found.most, ldexp(Real(largest), exponent) * Real(1.004)) << bits;
  }
  // Sums that are larger than expected say nothing.
  EXPECT_LE(in_wide_units(p.bounds(28), 0).least, 0);
}

TEST(DirectionBounds, OfNothingSayNothing) {
  EXPECT_LE(in_wide_units({}, -70).least, 0);
  Subject none{{}, {}, {}, Real(1), Real(1), Real()};
  EXPECT_LE(in_wide_units(none.bounds(10), -70).least, 0);
  Subject zero{{0, 0}, {0, 0}, {1, 2}, Real(1), Real(), Real(1)};
  EXPECT_LE(in_wide_units(zero.bounds(10), -70).least, 0);
}

}  // namespace
}  // namespace mantissa::ops
