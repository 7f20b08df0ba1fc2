#include "data/pictures/resize.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes fit(const Bytes& in, const PictureForm& from, const PictureForm& to) {
  Bytes out(static_cast<size_t>(to.bytes()), 99);
  fit_picture(in.data(), from, to, out.data());
  return out;
}

Bytes any_pixels(int64_t bytes) {
  return *rc::gen::container<Bytes>(static_cast<size_t>(bytes), rc::gen::arbitrary<uint8_t>());
}

TEST(PictureSize, IsReadAndPrinted) {
  EXPECT_EQ(parse_picture_size("0").value(), (PictureSize{0, 0}));
  EXPECT_EQ(parse_picture_size("32").value(), (PictureSize{32, 32}));
  EXPECT_EQ(parse_picture_size("28x4096").value(), (PictureSize{28, 4096}));
  for (const PictureSize& size : {PictureSize{0, 0}, PictureSize{7, 7}, PictureSize{7, 8}}) {
    EXPECT_EQ(parse_picture_size(to_string(size)).value(), size);
  }
  for (const char* text : {"", "x", "0x3", "3x0", "3x", "x3", "-3", "3x3x3", "4097", "3 x 3", "1e3",
                           "99999999999999999999"}) {
    EXPECT_FALSE(parse_picture_size(text).ok()) << text;
  }
}

TEST(CentreCrop, HasTheProportionsOfTheResult) {
  const auto expect = [](PictureSize from, PictureSize to, Crop wanted) {
    const Crop crop = centre_crop(from, to);
    EXPECT_EQ(crop.top, wanted.top);
    EXPECT_EQ(crop.left, wanted.left);
    EXPECT_EQ(crop.height, wanted.height);
    EXPECT_EQ(crop.width, wanted.width);
  };
  expect({100, 200}, {10, 10}, {0, 50, 100, 100});
  expect({200, 101}, {10, 10}, {49, 0, 101, 101});
  expect({30, 60}, {10, 20}, {0, 0, 30, 60});
  expect({1, 1000}, {10, 10}, {0, 499, 1, 1});
  expect({10, 15}, {4, 7}, {0, 0, 9, 15});  // 8.57 rows
}

TEST(FitPicture, ShrinksByTheAverageOfTheArea) {
  EXPECT_EQ(fit({1, 2, 3, 4}, {2, 2, 1}, {1, 1, 1}), (Bytes{3}));  // 2.5
  EXPECT_EQ(fit({0, 255, 10, 20, 0, 255, 10, 20}, {2, 4, 1}, {1, 2, 1}), (Bytes{128, 15}));
  // Three pixels to two: the middle one belongs to both by half.
  EXPECT_EQ(fit({0, 90, 30, 0, 90, 30, 0, 90, 30}, {3, 3, 1}, {2, 2, 1}), (Bytes{30, 50, 30, 50}));
}

TEST(FitPicture, GrowsLinearlyBetweenCentres) {
  EXPECT_EQ(fit({0, 100, 0, 100}, {2, 2, 1}, {4, 4, 1}),
            (Bytes{0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100}));
  EXPECT_EQ(fit({7, 8, 9}, {1, 1, 3}, {2, 2, 3}), (Bytes{7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9}));
}

TEST(FitPicture, ConvertsColours) {
  EXPECT_EQ(fit({255, 0, 0, 10, 200, 30}, {1, 2, 3}, {1, 2, 1}), (Bytes{76, 124}));
  EXPECT_EQ(fit({5}, {1, 1, 1}, {2, 1, 3}), (Bytes{5, 5, 5, 5, 5, 5}));
}

RC_GTEST_PROP(FitPicture, LeavesPicturesOfTheRightForm, ()) {
  const PictureForm form = {*rc::gen::inRange(1, 9), *rc::gen::inRange(1, 9),
                            *rc::gen::element(1, 3)};
  const Bytes in = any_pixels(form.bytes());
  RC_ASSERT(fit(in, form, form) == in);
}

// The definition in long double, which is exact enough to tell the rounding of such small pictures
// but at ties.
long double pixel(const Bytes& in, const PictureForm& from, const PictureForm& to, int64_t y,
                  int64_t x) {
  const Crop crop = centre_crop({from.height, from.width}, {to.height, to.width});
  const auto weight = [](int64_t n, int64_t m, int64_t i, int64_t at) -> long double {
    if (m <= n) {
      const long double scale = static_cast<long double>(n) / m;
      return std::max(0.0L, std::min<long double>((i + 1) * scale, at + 1) -
                                std::max<long double>(i * scale, at)) /
             scale;
    }
    const long double place =
        std::clamp<long double>((i + 0.5L) * n / m - 0.5L, 0, static_cast<long double>(n - 1));
    return std::max(0.0L, 1 - std::abs(place - at));
  };
  long double sum = 0;
  for (int64_t j = 0; j < crop.height; ++j) {
    for (int64_t k = 0; k < crop.width; ++k) {
      sum += weight(crop.height, to.height, y, j) * weight(crop.width, to.width, x, k) *
             in[static_cast<size_t>((crop.top + j) * from.width + crop.left + k)];
    }
  }
  return sum;
}

RC_GTEST_PROP(FitPicture, IsItsDefinitionRoundedOnce, ()) {
  const PictureForm from = {*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 20), 1};
  const PictureForm to = {*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 20), 1};
  const Bytes in = any_pixels(from.bytes()), out = fit(in, from, to);
  for (int64_t i = 0; i < to.bytes(); ++i) {
    const long double exact = pixel(in, from, to, i / to.width, i % to.width);
    RC_ASSERT(std::abs(exact - out[static_cast<size_t>(i)]) <= 0.5L + 1e-9L);
  }
}

RC_GTEST_PROP(FitPicture, TreatsChannelsAlike, ()) {
  const PictureForm grey = {*rc::gen::inRange(1, 12), *rc::gen::inRange(1, 12), 1};
  const PictureForm to = {*rc::gen::inRange(1, 12), *rc::gen::inRange(1, 12), 1};
  const Bytes in = any_pixels(grey.bytes());
  Bytes colour;
  for (const uint8_t value : in) colour.insert(colour.end(), 3, value);
  const Bytes narrow = fit(in, grey, to);
  const Bytes wide = fit(colour, {grey.height, grey.width, 3}, {to.height, to.width, 3});
  for (size_t i = 0; i < wide.size(); ++i) RC_ASSERT(wide[i] == narrow[i / 3]);
}

TEST(FitPicture, HoldsTheLargestSums) {
  const PictureForm from = {2, 16384, 1}, to = {2, 16, 1};
  const Bytes in(static_cast<size_t>(from.bytes()), 255);
  EXPECT_EQ(fit(in, from, to), Bytes(32, 255));
  Bytes ramps;  // four rows
  for (size_t i = 0; i < 4 * 16384; ++i) ramps.push_back(static_cast<uint8_t>(i % 16384 / 64));
  const Bytes row = fit(ramps, {4, 16384, 1}, {1, 4096, 1});
  for (size_t i = 0; i < row.size(); ++i) ASSERT_EQ(row[i], i / 16);
  EXPECT_EQ(fit({255}, {1, 1, 1}, {4096, 1, 1}), Bytes(4096, 255));
}

}  // namespace
}  // namespace mantissa
