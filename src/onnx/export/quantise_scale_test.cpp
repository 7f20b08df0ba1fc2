#include "onnx/export/quantise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

bool has_scale(const ops::QuantiseAttributes& attributes, int64_t mantissa, int input_exponent) {
  const ops::QuantiseSteps steps(attributes, {mantissa, -14}, input_exponent);
  return quantise_scale(steps, {.exponent = input_exponent}).has_value();
}

bool has_scales(const ops::QuantiseAttributes& attributes, int64_t mantissa) {
  for (int exponent = -24; exponent <= 4; ++exponent) {
    if (!has_scale(attributes, mantissa, exponent)) return false;
  }
  return true;
}

TEST(QuantiseScale, RangesWithoutOneGiveWayToTheNearestThatHasOne) {
  int changed = 0;
  for (const bool is_signed : {false, true}) {
    for (int bits = 2; bits <= 7; ++bits) {
      const ops::QuantiseAttributes attributes{.bits = bits, .is_signed = is_signed};
      for (int64_t mantissa = 1 << 14; mantissa < 1 << 15; mantissa += 128) {
        const double range = std::ldexp(static_cast<double>(mantissa), -14);
        const double found = range_with_scales(range, bits, is_signed);
        const auto near = static_cast<int64_t>(std::ldexp(found, 14));
        ASSERT_TRUE(has_scales(attributes, near)) << bits << " " << mantissa;
        if (found == range) continue;
        ++changed;
        EXPECT_FALSE(has_scales(attributes, mantissa)) << bits << " " << mantissa;
        EXPECT_LT(std::abs(near - mantissa), 16) << bits << " " << mantissa;
      }
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(QuantiseScale, GivesTheStepsWithAnOffset) {
  const ops::QuantiseAttributes attributes{.bits = 4, .offset = true};
  const ops::QuantiseSteps steps(attributes, {20000, -14}, -6, {-9000, -15});
  ASSERT_LT(steps.low(), 0);
  const auto scale = quantise_scale(steps, {.exponent = -6});
  ASSERT_TRUE(scale.has_value());
  EXPECT_NEAR(*scale, std::ldexp(20000.0, -14) / 15, 1e-6);
}

}  // namespace
}  // namespace mantissa::onnx
