#include "onnx/export/quantise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

Attributes attributes_of(int bits, bool is_signed) {
  return {{"bits", int64_t{bits}},
          {"signed", int64_t{is_signed ? 1 : 0}},
          {"learns", std::string("lsq")},
          {"offset", int64_t{0}}};
}

bool has_scale(const Attributes& attributes, int64_t mantissa, int input_exponent) {
  const ops::QuantiseSteps steps(attributes, {mantissa, -14}, input_exponent);
  return quantise_scale(steps, {.exponent = input_exponent}).has_value();
}

bool has_scales(const Attributes& attributes, int64_t mantissa) {
  for (int exponent = -24; exponent <= 4; ++exponent) {
    if (!has_scale(attributes, mantissa, exponent)) return false;
  }
  return true;
}

TEST(QuantiseScale, RangesWithoutOneGiveWayToTheNearestThatHasOne) {
  int changed = 0;
  for (const bool is_signed : {false, true}) {
    for (int bits = 2; bits <= 7; ++bits) {
      const Attributes attributes = attributes_of(bits, is_signed);
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
  Attributes attributes = {{"bits", int64_t{4}},
                           {"signed", int64_t{0}},
                           {"learns", std::string("lsq")},
                           {"offset", int64_t{1}}};
  const ops::QuantiseSteps steps(attributes, {20000, -14}, -6, {-9000, -15});
  ASSERT_LT(steps.low(), 0);
  const auto scale = quantise_scale(steps, {.exponent = -6});
  ASSERT_TRUE(scale.has_value());
  EXPECT_NEAR(*scale, std::ldexp(20000.0, -14) / 15, 1e-6);
}

}  // namespace
}  // namespace mantissa::onnx
