// Bounds of directions against `wide` of the updates, and the exponents that follow.
#include "ops/updates/direction_bounds.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/updates/update_parts.h"
#include "ops/updates/update_subject.h"

namespace mantissa::ops {
namespace {

// A parameter whose direction is sums * gradient_unit + velocity * velocity_unit + V * decay_unit.
struct Subject {
  std::vector<int64_t> sums;
  std::vector<int16_t> velocity;
  std::vector<int32_t> values;  // V
  Real gradient_unit, velocity_unit, decay_unit;

  // Bounds if the sums are expected to have `gradient_bits` bits.
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

// A parameter with sums of 32 or 64 bits. The last step's sums had about as many bits, and the
// velocity is about as large.
struct AnyParameter {
  int64_t count = *rc::gen::inRange(1, 20);
  int weight_bits = *rc::gen::inRange(2, 17);
  bool is_narrow = *rc::gen::arbitrary<bool>();
  int sum_bits = *rc::gen::inRange(1, is_narrow ? 32 : 56);
  std::vector<int64_t> sums = any(sum_bits);
  std::vector<int32_t> narrow_sums{sums.begin(), sums.end()};
  std::vector<int64_t> weights = any(weight_bits - 1);
  std::vector<int8_t> weights8{weights.begin(), weights.end()};
  std::vector<int16_t> weights16{weights.begin(), weights.end()};
  std::vector<int16_t> accumulator = words(14), velocity = words(*rc::gen::inRange(1, 16));
  int16_t sum_exponent = static_cast<int16_t>(*rc::gen::inRange(-60, 0));
  int16_t fixed_exponent = static_cast<int16_t>(sum_exponent + sum_bits - kGradientAccumulatorBits +
                                                *rc::gen::inRange(-2, 3));
  int16_t weight_exponent = static_cast<int16_t>(*rc::gen::inRange(-20, 0));
  int16_t velocity_exponent = static_cast<int16_t>(
      std::max(sum_exponent + sum_bits - 15 + *rc::gen::inRange(-6, 7), kExponentMin));
  int64_t saturated = 0;

  ParameterView view() {
    const Shape shape{count};
    ParameterView view;
    view.mantissa = weight_bits <= 8 ? tensor_of(weights8, shape, &weight_exponent, &saturated)
                                     : tensor_of(weights16, shape, &weight_exponent, &saturated);
    view.mantissa.bits = weight_bits;
    view.accumulator = tensor_of(accumulator, shape, nullptr, &saturated);
    view.moments[0] = tensor_of(velocity, shape, &velocity_exponent, &saturated);
    if (!is_narrow) fixed_exponent = sum_exponent;
    view.gradient = is_narrow ? tensor_of(narrow_sums, shape, &sum_exponent, &saturated)
                              : tensor_of(sums, shape, &sum_exponent, &saturated);
    view.fixed_exponent = &fixed_exponent;
    view.lazy_shift = kShift;
    view.decays = true;
    return view;
  }

  // Many of the largest, and of its neighbours.
  std::vector<int64_t> any(int bits) const {
    const int64_t most = (int64_t{1} << bits) - 1;
    return *rc::gen::container<std::vector<int64_t>>(
        count, rc::gen::oneOf(rc::gen::inRange(-most, most + 1),
                              rc::gen::element(most, -most, most / 2 + 1)));
  }
  std::vector<int16_t> words(int bits) const {
    const auto values = any(bits);
    return {values.begin(), values.end()};
  }
};

void check_exponents(const OpContext& c, AnyParameter& parameter, bool moves) {
  const Real momentum(c.step.scalars->momentum);
  kernels::Update update = update_of(c);
  DirectionBounds bounds;
  if (moves) {
    update.velocity = parameter.velocity.data();
    update.direction_bits = 16;
  }
  const auto gradient =
      moves ? measure_gradient(c, momentum, update, bounds) : measure_gradient(c, update);
  RC_ASSERT(gradient.has_value());
  if (!moves) bounds = gradient_bounds(c, *gradient, true);
  const Term terms[] = {
      gradient_term(c, *gradient, update),
      decay_term(c, update),
      {ldexp(momentum, parameter.velocity_exponent), 15, &update.velocity_multiplier}};
  const auto used = std::span(terms).first(moves ? 3 : 2);
  const DirectionExponents found = choose_direction(c, used, bounds, update);
  const int shift = update.direction_shift;
  RC_CLASSIFY(in_wide_units(bounds, found.wide).least > 0, "bounds say something");
  RC_ASSERT(narrow_direction(c, update, found.wide).direction == found.direction);
  RC_ASSERT(update.direction_shift == shift);
}

RC_GTEST_PROP(DirectionBounds, GiveTheExponentsOfAPassOverAll, ()) {
  AnyParameter parameter;
  const bool moves = *rc::gen::arbitrary<bool>();
  const StepScalars scalars{.momentum = *rc::gen::element(0.0, 0.5, 0.9, 0.9999),
                            .weight_decay = *rc::gen::element(0.0, 1e-4, 0.1),
                            .gradient_scale = *rc::gen::element(1.0, 1.0 / 128, 1.0 / 96)};
  with_context(parameter.view(), scalars, 1,
               [&](const OpContext& c) { check_exponents(c, parameter, moves); });
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
