#include "data/pictures/colour_jitter.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes jittered(Bytes pixels, int64_t channels, const ColourJitter& jitter) {
  jitter_colours(jitter, static_cast<int64_t>(pixels.size()) / channels, channels, pixels.data());
  return pixels;
}

TEST(ColourJitter, ChangesBrightness) {
  EXPECT_EQ(jittered({0, 100, 200}, 1, {.brightness = 320}), (Bytes{0, 125, 250}));
  EXPECT_EQ(jittered({0, 100, 255}, 1, {.brightness = 512}), (Bytes{0, 200, 255}));
  EXPECT_EQ(jittered({0, 100, 255}, 1, {.brightness = 0}), (Bytes{0, 0, 0}));
}

TEST(ColourJitter, ChangesContrastAroundTheMean) {
  EXPECT_EQ(jittered({50, 100, 150}, 1, {.contrast = 128}), (Bytes{75, 100, 125}));
  EXPECT_EQ(jittered({50, 100, 150}, 1, {.contrast = 512}), (Bytes{0, 100, 200}));
  EXPECT_EQ(jittered({50, 100, 150}, 1, {.contrast = 0}), (Bytes{100, 100, 100}));
}

TEST(ColourJitter, ChangesSaturationAroundThePixelsGrey) {
  EXPECT_EQ(jittered({255, 0, 0}, 3, {.saturation = 0}), (Bytes{76, 76, 76}));
  EXPECT_EQ(jittered({120, 100, 80}, 3, {.saturation = 512}), (Bytes{136, 96, 56}));  // grey 104
  EXPECT_EQ(jittered({9, 200}, 1, {.saturation = 0}), (Bytes{9, 200}));
}

RC_GTEST_PROP(ColourJitter, WithoutChangeLeavesThePicture, ()) {
  const auto pixels = *rc::gen::container<Bytes>(30, rc::gen::arbitrary<uint8_t>());
  RC_ASSERT(jittered(pixels, 3, {}) == pixels);
  RC_ASSERT(jittered(pixels, 1, {}) == pixels);
}

RC_GTEST_PROP(ColourJitter, DrawsFactorsInRange, (uint64_t bits)) {
  const int percent = *rc::gen::inRange(1, 101);
  const ColourJitter jitter = draw_jitter(bits, percent);
  for (const int factor : {jitter.brightness, jitter.contrast, jitter.saturation}) {
    RC_ASSERT(std::abs(factor - 256) <= (percent * 256 + 50) / 100);
  }
}

TEST(ColourJitter, ReachesBothEnds) {
  EXPECT_EQ(draw_jitter(0, 100).brightness, 0);
  EXPECT_EQ(draw_jitter(~uint64_t{0}, 100).saturation, 512);
}

}  // namespace
}  // namespace mantissa
