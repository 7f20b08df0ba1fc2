#include "kernels/rescale/rescale.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/common/test_rows.h"
#include "numerics/float_product.h"

namespace mantissa::kernels {
namespace {

// The product in this CPU's float32 arithmetic.
int64_t in_hardware(int32_t sum, float multiplier) {
  const volatile float rounded = static_cast<float>(sum);
  const volatile float product = rounded * multiplier;
  return static_cast<int64_t>(std::clamp(std::nearbyintf(product), -0x1p30f, 0x1p30f));
}

// Sums of all sizes, those near halves of 24 bits among them.
std::vector<int32_t> sums_of_all_sizes(int count) {
  std::mt19937_64 random(5);
  std::vector<int32_t> sums = {0, 1, -1, INT32_MAX, INT32_MIN + 1, 1 << 24, (1 << 24) + 1};
  while (std::ssize(sums) < count) {
    sums.push_back(static_cast<int32_t>(random()) >> (random() % 32));
    const int cut = static_cast<int>(random() % 7);
    sums.push_back(static_cast<int32_t>(((0x800000 | (random() & 0x7fffff)) << cut) +
                                        ((uint64_t{1} << cut) >> 1) + random() % 3 - 1));
  }
  sums.resize(static_cast<size_t>(count));
  return sums;
}

float random_multiplier(std::mt19937_64& random) {
  const auto mantissa = static_cast<int64_t>(random() & 0xffffff) * (random() % 2 == 0 ? 1 : -1);
  return float_from(mantissa, static_cast<int>(random() % 60) - 60);
}

TEST(FloatProduct, IsWhatHardwareComputes) {
  std::mt19937_64 random(1);
  for (const int32_t sum : sums_of_all_sizes(20000)) {
    for (int i = 0; i < 50; ++i) {
      const float multiplier = random_multiplier(random);
      ASSERT_EQ(times_float(sum, float_parts(multiplier)), in_hardware(sum, multiplier))
          << sum << " * " << multiplier;
    }
    // Powers of 1/2: the product is a tie, or next to one.
    for (int shift = 0; shift < 31; ++shift) {
      const float multiplier = std::ldexp(1.0f, -shift);
      ASSERT_EQ(times_float(sum, float_parts(multiplier)), in_hardware(sum, multiplier));
    }
  }
}

RC_GTEST_PROP(FloatProduct, PartsGiveTheNumberBack, (int32_t mantissa)) {
  const int64_t of_24_bits = mantissa / 256;
  const int exponent = *rc::gen::inRange(-120, 100);
  const float number = float_from(of_24_bits, exponent);
  RC_ASSERT(number == std::ldexp(static_cast<float>(of_24_bits), exponent));
  const FloatParts parts = float_parts(number);
  RC_ASSERT(std::ldexp(static_cast<float>(parts.mantissa), parts.exponent) == number);
}

TEST(FloatProduct, WhatIsNotNormalIsZero) {
  EXPECT_EQ(float_from(1, -150), 0);
  EXPECT_EQ(float_from(1, 128), 0);
  EXPECT_EQ(float_from(1, 127), 0x1p127f);
  EXPECT_EQ(float_parts(0x1p-140f).mantissa, 0);
}

using RescaleTest = RowTest<RescaleKernels>;

TEST_P(RescaleTest, IsWhatTheDefinitionSays) {
  std::mt19937_64 random(2);
  for (const int64_t channels : {1, 3, 7, 8, 9, 15, 16, 17, 33, 64}) {
    const int64_t rows = 40;
    const auto sums = sums_of_all_sizes(static_cast<int>(rows * channels));
    std::vector<float> multipliers;
    for (int64_t c = 0; c < channels; ++c) multipliers.push_back(random_multiplier(random));
    multipliers[0] = 0x1p-20f;
    multipliers.back() = 0;
    for (const auto& [least, most] : {std::pair{-127, 127}, {0, 127}, {0, 96}, {-7, 7}, {0, 15}}) {
      std::vector<int8_t> out(sums.size(), int8_t{-99}), expected = out;
      int64_t clipped = 0;
      for (int64_t i = channels; i < (rows - 1) * channels; ++i) {
        const int64_t wide = in_hardware(sums[i], multipliers[i % channels]);
        expected[i] = static_cast<int8_t>(std::clamp<int64_t>(wide, least, most));
        clipped += wide > most || (least < 0 && wide < least);
      }
      const Rescale args{.sums = sums.data(),
                         .multipliers = multipliers.data(),
                         .channels = channels,
                         .out = out.data(),
                         .least = least,
                         .most = most};
      EXPECT_EQ(GetParam()->rescale(args, 1, rows - 1), clipped) << channels << " " << least;
      EXPECT_EQ(out, expected) << channels << " " << least;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, RescaleTest,
                         ::testing::Values(&kRescaleReference
#if defined(__x86_64__)
                                           ,
                                           &kRescaleAvx2, &kRescaleAvx512Vnni
#endif
                                           ),
                         row_name);

}  // namespace
}  // namespace mantissa::kernels
