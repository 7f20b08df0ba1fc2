// Rounding, exponents and the integer exponential against exact definitions in wider arithmetic.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/exponent.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

namespace mantissa {
namespace {

using Wide = __int128;

// floor(n / 2^shift) for any n, without relying on how >> treats negative numbers.
Wide floor_shift(Wide n, int shift) {
  const Wide unit = Wide{1} << shift;
  const Wide quotient = n / unit;
  return n % unit < 0 ? quotient - 1 : quotient;
}

Wide exact_rne(Wide n, int shift) {
  const Wide floor = floor_shift(n, shift);
  const Wide twice_rest = 2 * (n - floor * (Wide{1} << shift));
  const Wide unit = Wide{1} << shift;
  const bool up = twice_rest > unit || (twice_rest == unit && floor % 2 != 0);
  return floor + (up ? 1 : 0);
}

Wide exact_rhu(Wide n, int shift) { return floor_shift(2 * n + (Wide{1} << shift), shift + 1); }

// Around every tie of small numbers, around powers of two, and the ends of the allowed range.
std::vector<int64_t> awkward_numbers() {
  std::vector<int64_t> numbers;
  for (int64_t n = -70; n <= 70; ++n) numbers.push_back(n);
  for (int bit = 7; bit < 62; ++bit) {
    for (int64_t offset = -2; offset <= 2; ++offset) {
      numbers.push_back((int64_t{1} << bit) + offset);
      numbers.push_back(-(int64_t{1} << bit) + offset);
      numbers.push_back((int64_t{3} << (bit - 1)) / 2 + offset);
    }
  }
  std::erase_if(numbers, [](int64_t n) { return magnitude(n) >= uint64_t{1} << 62; });
  numbers.push_back((int64_t{1} << 62) - 1);
  numbers.push_back(1 - (int64_t{1} << 62));
  return numbers;
}

TEST(Rounding, RightShiftsAreExactOnAwkwardNumbers) {
  for (const int64_t n : awkward_numbers()) {
    for (int shift = 0; shift <= 62; ++shift) {
      ASSERT_TRUE(shift_right_rne(n, shift) == exact_rne(n, shift)) << n << " >> " << shift;
      ASSERT_TRUE(shift_right_rhu(n, shift) == exact_rhu(n, shift)) << n << " >> " << shift;
    }
  }
}

RC_GTEST_PROP(Rounding, RightShiftsAreExact, (int64_t bits)) {
  const int64_t n = bits / 2 - (bits < 0 ? -1 : 1);  // |n| < 2^62
  const int shift = *rc::gen::inRange(0, 63);
  const int64_t small = n >> *rc::gen::inRange(0, 60);
  for (const int64_t value : {n, small}) {
    RC_ASSERT(shift_right_rne(value, shift) == exact_rne(value, shift));
    RC_ASSERT(shift_right_rhu(value, shift) == exact_rhu(value, shift));
  }
}

TEST(Rounding, TiesGoToEvenOrUp) {
  EXPECT_EQ(shift_right_rne(1, 1), 0);
  EXPECT_EQ(shift_right_rne(3, 1), 2);
  EXPECT_EQ(shift_right_rne(-1, 1), 0);
  EXPECT_EQ(shift_right_rne(-3, 1), -2);
  EXPECT_EQ(shift_right_rhu(1, 1), 1);
  EXPECT_EQ(shift_right_rhu(-1, 1), 0);
  EXPECT_EQ(shift_right_rhu(-3, 1), -1);
}

TEST(Rounding, AnyShiftRescalesOrSaturates) {
  for (const int64_t n : awkward_numbers()) {
    for (int shift = -80; shift <= 80; ++shift) {
      Wide rne = 0, rhu = 0;
      if (shift >= 0) {
        rne = exact_rne(n, shift);
        rhu = exact_rhu(n, shift);
      } else if (n != 0) {
        // Saturates at 2^61. The product is not formed if it would not fit 128 bits.
        const bool fits = bit_length(magnitude(n)) - shift <= 61;
        rne = fits ? Wide{n} * (Wide{1} << -shift) : Wide{n < 0 ? -kWideLimit : kWideLimit};
        rhu = rne;
      }
      ASSERT_TRUE(rescale_rne(n, shift) == rne) << n << " >> " << shift;
      ASSERT_TRUE(rescale_rhu(n, shift) == rhu) << n << " >> " << shift;
    }
  }
}

TEST(Rounding, MagnitudeAndSaturation) {
  EXPECT_EQ(magnitude(INT64_MIN), uint64_t{1} << 63);
  EXPECT_EQ(magnitude(INT64_MAX), static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(mantissa_limit(8), 127);
  EXPECT_EQ(mantissa_limit(32), INT32_MAX);
  EXPECT_EQ(saturate(INT64_MIN, 127), -127);
  EXPECT_EQ(saturate(-128, 127), -127);
  EXPECT_EQ(saturate(INT64_MAX, 127), 127);
}

// After requantising with the exact shift, saturation takes away one unit at most (never wraps).
// The shift is the smallest that can be used.
void check_exact_shift(uint64_t maximum, int bits) {
  const int shift = exact_shift(maximum, bits);
  const Wide limit = mantissa_limit(bits);
  const Wide rounded = exact_rne(static_cast<Wide>(maximum), shift);
  ASSERT_LE(shift, 62);
  ASSERT_TRUE(rounded <= limit + 1) << maximum << " to " << bits << " bits";
  if (shift == 0) return;
  ASSERT_TRUE(exact_rne(static_cast<Wide>(maximum), shift - 1) > limit) << maximum;
}

TEST(Exponent, ExactShiftAtNeighboursOfPowersOfTwo) {
  for (const int bits : {2, 4, 8, 16, 32}) {
    for (int bit = 2; bit < 62; ++bit) {  // wide mantissas stay below 2^62
      for (int64_t offset = -3; offset <= 3; ++offset) {
        check_exact_shift((uint64_t{1} << bit) + static_cast<uint64_t>(offset), bits);
      }
    }
  }
  // 2^k itself keeps the finer exponent and saturates; 2^k + 1 gets the next exponent.
  EXPECT_EQ(exact_shift(128, 8), 0);
  EXPECT_EQ(exact_shift(129, 8), 1);
  EXPECT_EQ(exact_shift(127, 8), 0);
  EXPECT_EQ(exact_shift(256, 8), 1);
  EXPECT_EQ(exact_shift(257, 8), 2);
  EXPECT_EQ(exact_shift(0, 8), 0);
  EXPECT_EQ(exact_exponent(0, 5, 8), zero_exponent(8));
  EXPECT_EQ(exact_exponent(1000, -10, 8), -10 + 3);
}

RC_GTEST_PROP(Exponent, ExactShiftFits, (uint64_t maximum)) {
  check_exact_shift(maximum >> *rc::gen::inRange(2, 64), *rc::gen::element(4, 8, 16, 32));
}

TEST(Exponent, AlignedSumsFitTheirAccumulators) {
  for (int a = kExponentMin; a <= kExponentMax; a += 3) {
    for (int b = kExponentMin; b <= kExponentMax; b += 5) {
      for (const int bits : {kAlignBits8, kAlignBits16}) {
        const int sum = aligned_exponent(a, b, bits);
        ASSERT_LE(std::max(a, b) - sum, bits);
        ASSERT_TRUE(sum == std::min(a, b) || std::max(a, b) - sum == bits);
      }
    }
  }
  EXPECT_EQ(headroom_exponent(-20, -60), -19);
  EXPECT_EQ(headroom_exponent(-20, -10), -10);
  EXPECT_EQ(next_accumulator_exponent(-40, uint64_t{1} << 50), -29);
  EXPECT_EQ(next_accumulator_exponent(-40, 0), -40);
}

TEST(Exponential, FractionsAreMonotoneAndAccurate) {
  int64_t last = 0;
  long double worst = 0;
  for (int64_t fraction = 0; fraction < 65536; ++fraction) {
    const int64_t power = exp2_fraction_q30(fraction);
    ASSERT_GE(power, last) << fraction;
    const long double exact = exp2l(30.0L + static_cast<long double>(fraction) / 65536.0L);
    worst = std::max(worst, fabsl(static_cast<long double>(power) / exact - 1.0L));
    last = power;
  }
  EXPECT_EQ(exp2_fraction_q30(0), int64_t{1} << 30);
  EXPECT_LE(last, int64_t{1} << 31);
  EXPECT_LE(worst, 1e-7L);
}

TEST(Exponential, PowersFallToZero) {
  int64_t last = 0;
  for (int64_t exponent = -70 * 65536; exponent <= 0; exponent += 97) {
    const int64_t power = exp2_q30(exponent);
    ASSERT_GE(power, last) << exponent;
    last = power;
  }
  EXPECT_EQ(exp2_q30(0), int64_t{1} << 30);
  EXPECT_EQ(exp2_q30(-30 * 65536), 1);
  EXPECT_EQ(exp2_q30(-31 * 65536), 0);
  EXPECT_EQ(exp2_q30(-(int64_t{1} << 40)), 0);
}

// The squarings round down too. That costs at most a twentieth of the last bit.
void check_log2(uint64_t n) {
  const long double exact = log2l(static_cast<long double>(n)) * (1 << 24);
  const auto result = static_cast<long double>(log2_q24(n));
  ASSERT_LE(result, exact + 1e-6L) << n;
  ASSERT_GT(result, exact - 1.05L) << n;
}

TEST(Exponential, Log2) {
  for (uint64_t n = 1; n < 100000; ++n) check_log2(n);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_EQ(log2_q24(uint64_t{1} << bit), int64_t{bit} << 24);
    check_log2((uint64_t{1} << bit) + ((uint64_t{1} << bit) >> 1));
  }
  check_log2(UINT64_MAX);
}

RC_GTEST_PROP(Exponential, Log2OfAnything, (uint64_t bits)) {
  check_log2(std::max<uint64_t>(bits >> *rc::gen::inRange(0, 64), 1));
}

TEST(Exponential, NaturalToLog2) {
  EXPECT_EQ(natural_to_log2_q16(0, 0), 0);
  EXPECT_EQ(natural_to_log2_q16(-1, 0), -kLog2EQ16);
  EXPECT_EQ(natural_to_log2_q16(-3, -1), -141822);
  EXPECT_EQ(natural_to_log2_q16(-1, 127), -(int64_t{1} << 40));
  EXPECT_EQ(natural_to_log2_q16(-(int64_t{1} << 33) + 1, 127), -(int64_t{1} << 40));
  EXPECT_EQ(natural_to_log2_q16(-(int64_t{1} << 33) + 1, -128), 0);
}

RC_GTEST_PROP(Exponential, NaturalToLog2IsExact, (uint64_t bits)) {
  const auto difference = -static_cast<int64_t>(bits >> *rc::gen::inRange(31, 64));
  const int exponent = *rc::gen::inRange(-60, 20);
  const Wide product = Wide{difference} * kLog2EQ16;
  Wide exact = exponent <= 0 ? exact_rne(product, -exponent) : product * (Wide{1} << exponent);
  exact = std::max(exact, -(Wide{1} << 40));
  RC_ASSERT(natural_to_log2_q16(difference, exponent) == exact);
}

template <typename Root, typename Square>
void check_root(Root root, Square n) {
  const auto r = static_cast<unsigned __int128>(root);
  ASSERT_TRUE(r * r <= n) << static_cast<double>(n);
  ASSERT_TRUE(n - r * r <= 2 * r) << static_cast<double>(n);
}

TEST(Rounding, IntegerRoots) {
  for (uint64_t n = 0; n < 70'000; ++n) check_root(integer_root(n), n);
  for (uint64_t root = UINT32_MAX; root > UINT32_MAX - 1000; --root) {
    for (const uint64_t n : {root * root - 1, root * root, root * root + root}) {
      check_root(integer_root(n), n);
    }
  }
  check_root(integer_root(UINT64_MAX), UINT64_MAX);
}

RC_GTEST_PROP(Rounding, WideIntegerRoots, (uint64_t high, uint64_t low, int64_t near)) {
  using Unsigned = unsigned __int128;
  high |= uint64_t{1} << 62;
  const Unsigned n = (Unsigned{high} << 64) + (*rc::gen::element(low, uint64_t{0}, UINT64_MAX));
  check_root(integer_root(n), n);
  const Unsigned root = low | 1 | (uint64_t{1} << 63), square = root * root;
  for (const Unsigned next : {square - 1, square, square + 1, square + 2 * root,
                              square + static_cast<uint64_t>(near) % (2 * low + 1)}) {
    check_root(integer_root(next), next);
  }
}

TEST(Rounding, DivisionRoundsToNearestEven) {
  EXPECT_EQ(divide_rne(5, 2), 2);
  EXPECT_EQ(divide_rne(7, 2), 4);
  EXPECT_EQ(divide_rne(-5, 2), -2);
  EXPECT_EQ(divide_rne(-7, 2), -4);
  EXPECT_EQ(divide_rne(-7, 3), -2);
  EXPECT_EQ(divide_rne(-8, 3), -3);
  EXPECT_EQ(divide_rne(__int128{1} << 100, int64_t{1} << 60), int64_t{1} << 40);
}

TEST(Accumulate, AddsAndStaysAtTheLimit) {
  EXPECT_EQ(accumulate(5, -7), -2);
  EXPECT_EQ(accumulate(kWideLimit - 1, 1), kWideLimit);
  EXPECT_EQ(accumulate(1, kWideLimit), kWideLimit);
  EXPECT_EQ(accumulate(-1, -kWideLimit), -kWideLimit);
  int64_t sum = 0;  // eight clipped parts would wrap to 0 in plain int64
  for (int part = 0; part < 8; ++part) sum = accumulate(sum, kWideLimit);
  EXPECT_EQ(sum, kWideLimit);
  EXPECT_EQ(accumulate(kWideLimit, -5), kWideLimit) << "an overflow stays visible";
}

}  // namespace
}  // namespace mantissa
