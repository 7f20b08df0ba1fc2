// Mantissas at every exponent against long double, all of 8 bits and a sample of longer ones: the
// errors that docs/operators.md names.
#include "numerics/point_functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace mantissa {
namespace {

using LongDouble = long double;
using Function = std::function<LongDouble(LongDouble)>;

constexpr Fraction kSlope = {1, 100};
// Half a unit of Q30, plus the error of long double itself.
constexpr LongDouble kHalfQ30 = 0x1p-31L * 1.0001L;

// Every mantissa of 8 bits; of the larger ones up to 16 bits, those near the steps of a coarse
// grid.
std::vector<int64_t> mantissas() {
  std::vector<int64_t> list;
  for (int64_t q = -128; q <= 127; ++q) list.push_back(q);
  for (int64_t q = 128; q < 32768; q += q / 16) {
    for (const int64_t near : {q - 1, q, q + 1}) {
      list.push_back(near);
      list.push_back(-near);
    }
  }
  list.push_back(32767);
  list.push_back(-32767);
  return list;
}

// |f - value| <= tolerance(x), and the derivative within 2e-7.
void check(const PointFunction& function, const Function& f, const Function& derivative,
           const Function& tolerance, const Fraction& slope_of = kSlope) {
  const std::vector<int64_t> all = mantissas();
  for (int e = -128; e <= 127; ++e) {
    for (const int64_t q : all) {
      const LongDouble x = std::ldexp(static_cast<LongDouble>(q), e);
      const int64_t value = function.value(q, e, slope_of);
      ASSERT_LE(std::abs(value), int64_t{1} << 46);
      const LongDouble found =
          std::ldexp(static_cast<LongDouble>(value), function.wide_exponent(e));
      ASSERT_LE(std::abs(found - f(x)), tolerance(x)) << q << " " << e;
      const LongDouble slope =
          std::ldexp(static_cast<LongDouble>(function.derivative_q30(q, e, slope_of)), -30);
      ASSERT_LE(std::abs(slope - derivative(x)), 2e-7L) << q << " " << e;
    }
  }
}

LongDouble clamped(LongDouble x, LongDouble low, LongDouble high) {
  return std::min(std::max(x, low), high);
}
LongDouble exact_sigmoid(LongDouble x) { return 1 / (1 + std::exp(-x)); }
LongDouble exact_normal(LongDouble x) { return std::erfc(-x / std::sqrt(LongDouble{2})) / 2; }
LongDouble exact_density(LongDouble x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(LongDouble{-1}));
}
LongDouble exact_hard_sigmoid(LongDouble x) { return clamped(x + 3, 0, 6) / 6; }

// ReLU6 computes with the ranges that it states.
TEST(PointFunctions, RangesAreThoseOfTheFunction) {
  const std::vector<int64_t> all = mantissas();
  int clipping = 0;
  for (int e = -128; e <= 127; ++e) {
    MantissaRange range;
    const bool clips = kRelu6Function.clips(e, &range);
    const MantissaRange passing = kRelu6Function.passes(e);
    clipping += clips;
    for (const int64_t q : all) {
      if (clips) {
        ASSERT_EQ(kRelu6Function.wide_exponent(e), e);
        ASSERT_EQ(kRelu6Function.value(q, e, kSlope), std::clamp(q, range.low, range.high));
      }
      const bool passes = q >= passing.low && q <= passing.high;
      ASSERT_EQ(kRelu6Function.derivative_q30(q, e, kSlope), passes ? int64_t{1} << 30 : 0)
          << q << " " << e;
    }
  }
  EXPECT_EQ(clipping, 129);
}

TEST(PointFunctions, Relu6IsExact) {
  check(
      kRelu6Function, [](LongDouble x) { return clamped(x, 0, 6); },
      [](LongDouble x) { return x > 0 && x < 6 ? 1 : 0; }, [](LongDouble) { return 0; });
}

TEST(PointFunctions, Relu6ClipsAtSixWhereverTheExponentPutsIt) {
  const auto at = [](int64_t q, int e) { return kRelu6Function.value(q, e, {}); };
  EXPECT_EQ(at(95, -4), 95);  // 5.9375 = 95 / 16
  EXPECT_EQ(at(96, -4), 96);
  EXPECT_EQ(at(97, -4), 96);
  EXPECT_EQ(at(127, -5), 127);  // below 6: nothing is clipped
  EXPECT_EQ(at(5, 0), 5);
  EXPECT_EQ(at(7, 0), 6);
  EXPECT_EQ(at(2, 1), 4);  // 6 is no multiple of 4 or more: units of one
  EXPECT_EQ(at(1, 2), 4);
  EXPECT_EQ(at(1, 3), 6);
  EXPECT_EQ(at(1, 127), 6);
  EXPECT_EQ(kRelu6Function.derivative_q30(96, -4, {}), 0);
  EXPECT_EQ(kRelu6Function.derivative_q30(95, -4, {}), 1 << 30);
  EXPECT_EQ(kRelu6Function.derivative_q30(0, -4, {}), 0);
}

TEST(PointFunctions, LeakyReluIsRoundedOnce) {
  check(
      kLeakyReluFunction, [](LongDouble x) { return x > 0 ? x : x / 100; },
      [](LongDouble x) { return x > 0 ? 1 : 0.01L; },
      [](LongDouble x) { return std::abs(x) * kHalfQ30; });
  EXPECT_EQ(kLeakyReluFunction.value(-3, 5, {1, 4}), -3 * (int64_t{1} << 28));
  EXPECT_EQ(kLeakyReluFunction.derivative_q30(0, 5, {1, 4}), 1 << 28);
}

TEST(PointFunctions, SigmoidIsCloseAndSymmetric) {
  check(
      kSigmoidFunction, exact_sigmoid,
      [](LongDouble x) { return exact_sigmoid(x) * exact_sigmoid(-x); },
      [](LongDouble) { return 1e-7L; });
  for (int e = -128; e <= 127; ++e) {
    for (int64_t q = 0; q <= 127; ++q) {
      const int64_t sum = kSigmoidFunction.value(q, e, {}) + kSigmoidFunction.value(-q, e, {});
      ASSERT_EQ(sum, 1 << 30) << q << " " << e;
    }
  }
}

TEST(PointFunctions, TanhKeepsTheSmallestValues) {
  check(
      kTanhFunction, [](LongDouble x) { return std::tanh(x); },
      [](LongDouble x) { return 1 / (std::cosh(x) * std::cosh(x)); },
      [](LongDouble x) { return std::min(2e-7L, 5e-5L * std::abs(std::tanh(x))); });
  for (int e = -128; e <= 127; ++e) {
    for (int64_t q = 0; q <= 127; ++q) {
      ASSERT_EQ(kTanhFunction.value(q, e, {}), -kTanhFunction.value(-q, e, {})) << q << " " << e;
    }
  }
}

TEST(PointFunctions, HardSigmoidAndHardSwishAreRoundedOnce) {
  check(
      kHardSigmoidFunction, exact_hard_sigmoid,
      [](LongDouble x) { return x > -3 && x < 3 ? 1 / 6.0L : 0; },
      [](LongDouble) { return kHalfQ30; });
  check(
      kHardSwishFunction, [](LongDouble x) { return x * exact_hard_sigmoid(x); },
      [](LongDouble x) { return x <= -3  ? 0
                                : x >= 3 ? 1
                                         : (2 * x + 3) / 6; },
      [](LongDouble x) { return std::abs(x) * kHalfQ30; });
}

TEST(PointFunctions, GeluAndSiluAreClose) {
  check(
      kGeluFunction, [](LongDouble x) { return x * exact_normal(x); },
      [](LongDouble x) { return exact_normal(x) + x * exact_density(x); },
      [](LongDouble x) { return std::abs(x) * 1e-8L; });
  check(
      kSiluFunction, [](LongDouble x) { return x * exact_sigmoid(x); },
      [](LongDouble x) { return exact_sigmoid(x) * (1 + x * exact_sigmoid(-x)); },
      [](LongDouble x) { return std::abs(x) * 1e-7L; });
}

TEST(PointFunctions, GeluByTanhIsClose) {
  const LongDouble k = 2 * std::sqrt(2 / std::acos(LongDouble{-1})), c = 0.044715L;
  const auto share = [=](LongDouble x) { return exact_sigmoid(k * (x + c * x * x * x)); };
  check(
      kGeluTanhFunction, [=](LongDouble x) { return x * share(x); },
      [=](LongDouble x) {
        const LongDouble rest = std::abs(x) > 30 ? 0 : x * k * (1 + 3 * c * x * x) * share(-x);
        return share(x) * (1 + rest);
      },
      [](LongDouble x) { return std::abs(x) * 1.2e-7L; });
}

TEST(PointFunctions, EluKeepsTheSmallestValues) {
  for (const Fraction alpha : {Fraction{1, 1}, {1, 4}, {2, 1}, {65535, 65536}, {0, 1}}) {
    const LongDouble a =
        static_cast<LongDouble>(alpha.numerator) / static_cast<LongDouble>(alpha.denominator);
    check(
        kEluFunction, [a](LongDouble x) { return x > 0 ? x : a * std::expm1(x); },
        [a](LongDouble x) { return x > 0 ? 1 : a * std::exp(x); },
        [a](LongDouble x) {
          if (x > 0) return LongDouble{0};
          return (1 + a) * -x * 3e-9L + (x < -1 ? a * 2e-7L : 0);
        },
        alpha);
  }
  EXPECT_EQ(kEluFunction.derivative_q30(0, 3, {1, 4}), 1 << 28);
}

TEST(PointFunctions, SoftplusAndMishAreClose) {
  const auto exact_softplus = [](LongDouble x) {
    return std::max(x, LongDouble{0}) + std::log1p(std::exp(-std::abs(x)));
  };
  for (int e = -128; e <= 127; ++e) {  // also where x is far from the unit of the result
    for (const int64_t q : mantissas()) {
      const LongDouble x = std::ldexp(static_cast<LongDouble>(q), e);
      const LongDouble half_unit = std::ldexp(0.5L, kSoftplusFunction.wide_exponent(e));
      const LongDouble found =
          std::ldexp(static_cast<LongDouble>(kSoftplusFunction.value(q, e, {})),
                     kSoftplusFunction.wide_exponent(e));
      ASSERT_LE(std::abs(found - exact_softplus(x)),
                1e-7L + half_unit + std::abs(x) * 0x1p-62L)
          << q << " " << e;
      ASSERT_LE(kSoftplusFunction.value(q, e, {}), int64_t{1} << 46);
      ASSERT_EQ(kSoftplusFunction.derivative_q30(q, e, {}), kSigmoidFunction.value(q, e, {}));
    }
  }
  const auto bent = [&](LongDouble x) { return std::tanh(exact_softplus(x)); };
  check(
      kMishFunction, [&](LongDouble x) { return x * bent(x); },
      [&](LongDouble x) {
        return bent(x) + x * (1 - bent(x)) * (1 + bent(x)) * exact_sigmoid(x);
      },
      [](LongDouble x) { return std::abs(x) * 1e-7L; });
}

TEST(PointFunctions, FractionsAreFoundAgainFromTheirQuotients) {
  for (int64_t denominator = 1; denominator <= 600; ++denominator) {
    for (int64_t numerator = 0; numerator <= denominator; ++numerator) {
      const Fraction found = nearest_fraction(
          static_cast<double>(numerator) / static_cast<double>(denominator), 65536);
      ASSERT_EQ(found.numerator * denominator, numerator * found.denominator);
      ASSERT_LE(found.denominator, denominator);
    }
  }
  const Fraction most = nearest_fraction(65535 / 65536.0, 65536);
  EXPECT_EQ(most.numerator, 65535);
  EXPECT_EQ(most.denominator, 65536);
  for (const double number : {0.7071067811865476, 1e-3, 1e-9, 0.9999999999}) {
    const Fraction found = nearest_fraction(number, 65536);
    EXPECT_LE(found.denominator, 65536);
    EXPECT_NEAR(static_cast<double>(found.numerator) / static_cast<double>(found.denominator),
                number, 1.0 / 65536);
  }
}

}  // namespace
}  // namespace mantissa
