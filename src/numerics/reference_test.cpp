// The reference's arithmetic in 64 bits against the same in 128.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "numerics/exponent.h"
#include "numerics/rounding.h"
#include "reference/numerics/decisions.h"
#include "reference/numerics/normal.h"
#include "reference/training/losses.h"

namespace mantissa {
namespace {

using Wide = __int128;

// n * 2^-shift to nearest even.
Wide rounded_wide(Wide n, int shift) { return divide_rne(n, int64_t{1} << shift); }

// Numbers of all sizes up to 2^bits, and the ends.
rc::Gen<int64_t> number_of(int bits) {
  return rc::gen::exec([bits] {
    const int length = *rc::gen::inRange(0, bits + 1);
    const auto n = static_cast<int64_t>(*rc::gen::arbitrary<uint64_t>() >> (63 - length) >> 1);
    const int64_t size = *rc::gen::element(n, n, n, (int64_t{1} << length) - 1);
    return *rc::gen::arbitrary<bool>() ? size : -size;
  });
}
rc::Gen<int64_t> positive_of(int bits) {
  return rc::gen::map(number_of(bits), [](int64_t n) { return std::max<int64_t>(1, std::abs(n)); });
}

RC_GTEST_PROP(Reference, DividesToNearestEven, ()) {
  const int64_t denominator = *positive_of(40), numerator = *number_of(62);
  RC_ASSERT(ref_divide_rne(numerator, denominator) == divide_rne(numerator, denominator));
  const int64_t tie = (numerator >> 42) * denominator + denominator / 2;
  RC_ASSERT(ref_divide_rne(tie, denominator) == divide_rne(tie, denominator));
}

RC_GTEST_PROP(Reference, RoundsPairs, ()) {
  const int bits = *rc::gen::inRange(0, 40), shift = bits + *rc::gen::inRange(1, 62);
  const int64_t high = *number_of(60);
  // Ties among the low halves, too.
  const int64_t low = *rc::gen::element(std::abs(*number_of(62)), int64_t{0}, int64_t{1} << bits,
                                        int64_t{1} << (bits > 0 ? bits - 1 : 0));
  const Wide whole = (Wide{high} << bits) + low;
  const Wide wanted =
      shift <= 62 ? rounded_wide(whole, shift)
                  : rounded_wide(whole >> (shift - 62) |
                                     ((whole & ((Wide{1} << (shift - 62)) - 1)) != 0 ? 1 : 0),
                                 62);
  RC_ASSERT(ref_round_pair(high, low, bits, shift) == wanted);
}

RC_GTEST_PROP(Reference, MultipliesAndShifts, ()) {
  const int shift = *rc::gen::inRange(1, 32);
  const int64_t factor = *number_of(std::min(30, 61 - shift)), n = *number_of(30 + shift);
  RC_ASSERT(ref_times_rne(n, factor, shift) == rounded_wide(Wide{n} * factor, shift));
  const int64_t tie = (n >> shift << shift) + (int64_t{1} << (shift - 1));
  RC_ASSERT(ref_times_rne(tie, 1, shift) == rounded_wide(tie, shift));
}

RC_GTEST_PROP(Reference, DividesSumsOfSquares, ()) {
  const int64_t divisor = *rc::gen::inRange<int64_t>(1, 4097);
  const int64_t error = *number_of(37), count = *rc::gen::inRange<int64_t>(1, 4097);
  RefWide sum;
  Wide wanted = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = i % 3 == 0 ? (int64_t{1} << 37) : error - i;
    sum = ref_add_square(sum, n);
    wanted += Wide{n} * n;
  }
  RC_ASSERT((Wide{sum.high} << 32) + sum.low == wanted);
  RC_ASSERT(ref_divide_wide_rne(sum, static_cast<uint64_t>(divisor)) ==
            divide_rne(wanted, divisor << 24));
}

TEST(Reference, DividesTiesOfSums) {
  for (const uint64_t divisor : {1, 2, 3, 10, 4096}) {
    for (const uint64_t half : {1, 3, 5, 7, 12345}) {
      // half / 2, and a little more or less.
      const uint64_t low = half * (divisor << 23);
      for (const uint64_t n : {low - 1, low, low + 1}) {
        const RefWide wide = {n >> 32, n & UINT32_MAX};
        ASSERT_EQ(ref_divide_wide_rne(wide, divisor),
                  divide_rne(Wide{n}, static_cast<int64_t>(divisor << 24)))
            << divisor << ", " << half;
      }
    }
  }
}

RC_GTEST_PROP(Reference, MostClippedAreMillionths, ()) {
  const int64_t elements = std::abs(*number_of(62));
  const int ppm = *rc::gen::inRange(0, 1'000'001);
  RC_ASSERT(ref_most_clipped(elements, ppm) ==
            static_cast<int64_t>(Wide{elements} * ppm / 1'000'000));
}

RC_GTEST_PROP(Reference, WeighsLosses, ()) {
  const auto weight = static_cast<int16_t>(*rc::gen::inRange(0, 31745));
  const int64_t loss = *number_of(51);
  RC_ASSERT(
      (RefRowWeights{&weight, nullptr}.weighted(loss, 0) == rounded_wide(Wide{loss} * weight, 10)));
}

TEST(Reference, BitLengths) {
  for (int length = 1; length <= 64; ++length) {
    const uint64_t top = uint64_t{1} << (length - 1);
    EXPECT_EQ(ref_bit_length(top), length);
    EXPECT_EQ(ref_bit_length(top | (top - 1)), length);
  }
  EXPECT_EQ(ref_bit_length(0), 0);
}

// Phi - 1/2 = phi(0) sum (-1)^n x^(2n+1) / (2^n n! (2n+1)), and phi = phi(0) sum (-x^2/2)^n / n!,
// term by term in units of 2^-76 with x = step / 32: products stay below 2^123, and the rounding
// errors of terms stay below 2^-40 in the sums.
TEST(Reference, NormalTablesAreTheSeries) {
  constexpr Wide kDensityAtZeroQ62 = 1839796536686825613;  // 1 / sqrt(2 pi)
  constexpr int kToQ30 = 76 - 30;
  constexpr Wide kHalf = Wide{1} << (kToQ30 - 1);
  constexpr int64_t kOne = int64_t{1} << 30;
  for (int64_t step = 0; step < REF_NORMAL_STEPS; ++step) {
    Wide term = kDensityAtZeroQ62 << 14, density = term, integral = term;
    for (int64_t n = 1; n < 120; ++n) {
      term = -term * (step * step) / (2 * n << (2 * REF_NORMAL_STEP_BITS));
      density += term;
      integral += term / (2 * n + 1);
    }
    const auto above =
        static_cast<int64_t>(((integral * step >> REF_NORMAL_STEP_BITS) + kHalf) >> kToQ30);
    EXPECT_EQ(ref_normal_tables.density[step],
              std::max<int64_t>(0, static_cast<int64_t>((density + kHalf) >> kToQ30)));
    EXPECT_EQ(ref_normal_tables.probability[step], std::min(kOne, kOne / 2 + above));
  }
  for (int64_t step = REF_NORMAL_STEPS; step < REF_NORMAL_STEPS + 2; ++step) {
    EXPECT_EQ(ref_normal_tables.density[step], 0);
    EXPECT_EQ(ref_normal_tables.probability[step], kOne);
  }
}

// The least shift that leaves at most 2^(bits-1) of the maximum, or reaches the limit.
TEST(Reference, LimitedShiftsByTheirDefinition) {
  constexpr int kWide = -10;
  for (const int bits : {2, 4, 8, 16}) {
    for (const int limit : {-19, -9, -3, 5, int{kExponentMax}}) {
      for (const uint64_t maximum : {0, 1, 2, 127, 128, 129, 1000, 32767, 32769, 1 << 30}) {
        int shift = 0;
        while (maximum > (uint64_t{1} << (bits - 1)) << shift && kWide + shift < limit) ++shift;
        ASSERT_EQ(ref_limited_shift(maximum, kWide, bits, limit), shift)
            << maximum << ", " << bits << ", " << limit;
        ASSERT_EQ(ref_limited_exponent(maximum, kWide, bits, limit),
                  maximum == 0 ? zero_exponent(bits) : kWide + shift);
      }
    }
  }
  EXPECT_EQ(ref_headroom_exponent(REF_UNMEASURED, -10), -10);
}

}  // namespace
}  // namespace mantissa
