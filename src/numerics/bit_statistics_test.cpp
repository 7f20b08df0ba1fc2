// The rule of dynamic fixed point, against its definition on whole histograms.
#include "numerics/bit_statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

namespace mantissa {
namespace {

constexpr int kBits = 8;

// Key: an exponent. Value: how many elements need exactly this exponent.
using Needs = std::map<int, int64_t>;

BitStatistics counted(const Needs& needs, int decided) {
  BitStatistics statistics;
  for (const auto& [needed, count] : needs) {
    count_needed(statistics, decided, needed, count);
    statistics.largest_exponent = std::max<int64_t>(statistics.largest_exponent, needed);
  }
  return statistics;
}

// The smallest exponent, `from` or larger, at which at most clipped_ppm of the elements are
// clipped.
int smallest_that_fits(const Needs& needs, int from, int clipped_ppm) {
  int64_t elements = 0;
  for (const auto& [needed, count] : needs) elements += count;
  for (int exponent = from;; ++exponent) {
    int64_t clipped = 0;
    for (const auto& [needed, count] : needs) clipped += needed > exponent ? count : 0;
    if (clipped * 1'000'000 <= elements * clipped_ppm) return exponent;
  }
}

Needs any_needs() {
  Needs needs;
  const auto exponents =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-12, 12)));
  for (const int exponent : exponents) needs[exponent] += *rc::gen::inRange<int64_t>(1, 100'000);
  return needs;
}

RC_GTEST_PROP(BitStatistics, AtTheLargestExponentTheRuleIsItsDefinition, ()) {
  const Needs needs = any_needs();
  const int largest = needs.rbegin()->first, ppm = *rc::gen::inRange(0, 100'001);
  const int expected = smallest_that_fits(needs, largest - kFinerExponents, ppm);
  RC_ASSERT(next_decided_exponent(counted(needs, largest), largest, ppm, kBits) == expected);
}

RC_GTEST_PROP(BitStatistics, DescendsAtOnceAndRisesByOne, ()) {
  const Needs needs = any_needs();
  const int largest = needs.rbegin()->first, ppm = *rc::gen::inRange(0, 50'000);
  const int decided = *rc::gen::inRange(-16, 16);
  const int next = next_decided_exponent(counted(needs, decided), decided, ppm, kBits);
  const int wanted = smallest_that_fits(needs, -40, ppm);
  RC_ASSERT(next <= std::max(largest, decided));
  if (wanted > decided) {
    RC_ASSERT(next == decided + 1 || next == largest);
  } else if (decided - wanted <= kFinerExponents) {
    RC_ASSERT(next == wanted);
  } else {
    RC_ASSERT(next == std::min(decided - kFinerExponents, largest));
  }
}

RC_GTEST_PROP(BitStatistics, PartsAddInAnyOrder, ()) {
  const Needs a = any_needs(), b = any_needs();
  const int decided = *rc::gen::inRange(-16, 16);
  Needs both = a;
  for (const auto& [needed, count] : b) both[needed] += count;
  BitStatistics ab = counted(a, decided), ba = counted(b, decided);
  ab += counted(b, decided);
  ba += counted(a, decided);
  RC_ASSERT(ab == counted(both, decided));
  RC_ASSERT(ba == ab);
}

NeededExponents histogram(const Needs& needs) {
  NeededExponents all;
  for (const auto& [needed, count] : needs) all.add(needed, count);
  return all;
}

// The smallest exponent that clips few enough elements, and not all of them.
RC_GTEST_PROP(NeededExponents, TheRuleIsItsDefinition, ()) {
  const Needs needs = any_needs();
  const int ppm = *rc::gen::inRange(0, 100'001);
  RC_ASSERT(histogram(needs).decided(ppm, kBits) ==
            smallest_that_fits(needs, needs.begin()->first, ppm));
}

TEST(NeededExponents, ZerosFitEveryExponent) {
  NeededExponents zeros;
  zeros.add_zeros(90);
  EXPECT_EQ(zeros.decided(100, 8), zero_exponent(8));
  zeros.add(-3, 9);
  zeros.add(2, 1);
  EXPECT_EQ(zeros.decided(9'999, 8), 2) << "one of a hundred is too many";
  EXPECT_EQ(zeros.decided(10'000, 8), -3) << "some are left";
  EXPECT_EQ(zeros.decided(100'000, 8), -3);
}

TEST(BitStatistics, ZerosGoToTheFloorAndNothingKeepsItsExponent) {
  BitStatistics zeros;
  count_needed(zeros, 3, -100, 50);
  EXPECT_EQ(next_decided_exponent(zeros, 3, 100, 8), zero_exponent(8));
  EXPECT_EQ(next_decided_exponent(BitStatistics{}, 3, 100, 8), 3);
}

TEST(BitStatistics, WhatIsFarTooLargeIsHeldAtOnce) {
  EXPECT_EQ(next_decided_exponent(counted({{9, 10}, {0, 90}}, 0), 0, 100, 8), 9);
  EXPECT_EQ(next_decided_exponent(counted({{9, 1}, {0, 99}}, 0), 0, 100, 8), 1);
  EXPECT_EQ(next_decided_exponent(counted({{9, 1}, {0, 99}}, 0), 0, 10'000, 8), 0);
  // At the largest exponent a number is clipped if it rounds to one more than fits; nothing is
  // gained.
  BitStatistics by_one = counted({{0, 99}}, 0);
  by_one.too_large = 1;
  EXPECT_EQ(next_decided_exponent(by_one, 0, 0, 8), 0);
}

TEST(BitStatistics, ExponentOfAFullHistogram) {
  const auto exponent = [](std::vector<int64_t> by_length, int ppm, int bits) {
    return exponent_of_lengths(by_length, -20, ppm, bits);
  };
  // 2^-11 <= |x| < 2^-10 fits 8 bits of 2^-17, and 4 bits of 2^-13.
  EXPECT_EQ(exponent({5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 0, 8), -17);
  EXPECT_EQ(exponent({5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 0, 4), -13);
  EXPECT_EQ(exponent({5, 0, 1, 0}, 0, 8), -25) << "finer than the unit";
  EXPECT_EQ(exponent({90, 7, 2, 1}, 9'999, 2), -18) << "one of a hundred is too many";
  EXPECT_EQ(exponent({90, 7, 2, 1}, 10'000, 2), -19);
  EXPECT_EQ(exponent({90, 7, 2, 1}, 30'000, 2), -20);
  EXPECT_EQ(exponent({90, 7, 2, 1}, 100'000, 2), -20) << "some are left";
  EXPECT_EQ(exponent({90, 0, 0}, 0, 8), zero_exponent(8));
  EXPECT_EQ(exponent({}, 0, 8), zero_exponent(8));
}

}  // namespace
}  // namespace mantissa
