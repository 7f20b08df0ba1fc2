#include "numerics/weight_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace mantissa {
namespace {

constexpr int kShifts[] = {0, 1, 3, 7, 15};

template <typename Check>
void for_all_grids(const Check& check) {
  for (int bits = 1; bits <= 7; ++bits) {
    for (const bool is_full : {false, true}) {
      for (const bool stops : {false, true}) {
        const WeightGrid grid{bits, is_full, stops};
        SCOPED_TRACE(std::to_string(bits) + (is_full ? " full" : "") + (stops ? " stops" : ""));
        for (const int shift : kShifts) check(grid, shift);
      }
    }
  }
}

TEST(WeightGrid, HasTheWholeNumbersOfTheText) {
  EXPECT_EQ((WeightGrid{.bits = 4}.low()), -7);
  EXPECT_EQ((WeightGrid{.bits = 4}.high()), 7);
  EXPECT_EQ((WeightGrid{.bits = 4, .is_full = true}.low()), -8);
  EXPECT_EQ((WeightGrid{.bits = 4, .is_full = true}.high()), 7);
  EXPECT_EQ((WeightGrid{.bits = 1}.low()), -1);
  EXPECT_EQ((WeightGrid{.bits = 1}.high()), 1);
  EXPECT_EQ((WeightGrid{.bits = 1, .is_full = true}.low()), -1);
  EXPECT_EQ((WeightGrid{.bits = 1, .is_full = true}.high()), 0);
}

// Every V comes back from its W and A, which fit int8 and int16. W is the nearest one.
TEST(WeightGrid, SplitsEveryNumber) {
  for_all_grids([](const WeightGrid& grid, int shift) {
    const int64_t unit = int64_t{1} << shift;
    // All numbers if there are few, else some and the highest.
    const int64_t span = grid.highest(shift) - grid.lowest(shift);
    const int64_t stride = std::max<int64_t>(1, span / 2000);
    for (int64_t at = 0; at < span + stride; at += stride) {
      const int64_t value = grid.lowest(shift) + std::min(at, span);
      const LazySplit split = grid.split(value, shift);
      ASSERT_TRUE(grid.is_split(split.weight, split.accumulator, shift)) << value;
      ASSERT_LE(std::abs(split.weight), mantissa_limit(grid.mantissa_bits()));
      ASSERT_LE(std::abs(split.accumulator), INT16_MAX);
      const bool is_zero_of_signs = grid.is_sign() && value == 0;
      if (!is_zero_of_signs) {
        ASSERT_EQ(lazy_value(split.weight, split.accumulator, shift), value);
      }
      for (int64_t other = grid.low(); other <= grid.high(); ++other) {
        if (grid.is_sign() && other == 0) continue;
        ASSERT_LE(std::abs(split.weight * unit - value), std::abs(other * unit - value));
      }
    }
    EXPECT_EQ(grid.split(-1000 * unit, shift).weight, grid.low());
    EXPECT_EQ(grid.split(1000 * unit, shift).weight, grid.high());
  });
}

// Gradients stop only beyond n: at the ends of the grid they pass.
TEST(WeightGrid, GradientsStopBeyondTheText) {
  for_all_grids([](const WeightGrid& grid, int shift) {
    const int64_t unit = int64_t{1} << shift, n = int64_t{1} << (grid.bits - 1);
    for (const int64_t end : {grid.low() * unit, grid.high() * unit}) {
      EXPECT_FALSE(grid.is_stopped(end, shift));
    }
    const bool any = grid.stops && shift > 0;
    EXPECT_EQ(grid.is_stopped(grid.lowest(shift), shift), any);
    EXPECT_EQ(grid.is_stopped(grid.highest(shift), shift), any);
    if (!any) return;
    EXPECT_LE(std::abs(grid.highest(shift) - n * unit), 1);
    EXPECT_LE(std::abs(grid.lowest(shift) + n * unit), 1);
  });
}

TEST(WeightGrid, RefusesWhatSplittingDoesNotLeave) {
  const WeightGrid full{.bits = 4, .is_full = true}, signs{.bits = 1},
      stops{.bits = 3, .stops = true};
  EXPECT_FALSE(full.is_split(8, 0, 15));
  EXPECT_FALSE(full.is_split(-9, 0, 15));
  EXPECT_FALSE(full.is_split(3, 20000, 15));
  EXPECT_FALSE(signs.is_split(0, 0, 15));
  EXPECT_FALSE(signs.is_split(1, 32767 + 1, 15));
  EXPECT_FALSE(stops.is_split(2, -20000, 15));
  EXPECT_TRUE(stops.is_split(3, -20000, 15));
}

}  // namespace
}  // namespace mantissa
