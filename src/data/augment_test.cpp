#include "data/augment.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(ParseAugmentation, ReadsAndPrints) {
  EXPECT_EQ(parse_augmentation("none").value(), (Augmentation{0, false}));
  EXPECT_EQ(parse_augmentation("shift").value(), (Augmentation{2, false}));
  EXPECT_EQ(parse_augmentation("flip").value(), (Augmentation{0, true}));
  EXPECT_EQ(parse_augmentation("shift,flip").value(), (Augmentation{2, true}));
  EXPECT_EQ(parse_augmentation("flip,shift=16").value(), (Augmentation{16, true}));
  for (const Augmentation& augmentation : {Augmentation{0, false}, Augmentation{5, false},
                                           Augmentation{0, true}, Augmentation{1, true}}) {
    EXPECT_EQ(parse_augmentation(to_string(augmentation)).value(), augmentation);
  }
  EXPECT_EQ(to_string({2, true}), "shift=2,flip");
}

TEST(ParseAugmentation, RefusesAnythingElse) {
  for (const char* text : {"", ",", "flip,", "flip,flip", "shift,shift=3", "none,flip", "shift=0",
                           "shift=17", "shift=-1", "shift=", "shift=2x", "shift2", "Flip",
                           "shift= 2", "shift=99999999999999999999"}) {
    const auto augmentation = parse_augmentation(text);
    ASSERT_FALSE(augmentation.ok()) << text;
    EXPECT_NE(augmentation.error().message.find("write none, shift"), std::string::npos);
  }
}

struct Picture {
  int64_t height, width, channels;
  Bytes pixels;
};

Bytes augment(const Picture& in, const Augmentation& augmentation, uint64_t bits, uint8_t fill) {
  Bytes out(in.pixels.size(), 99);
  augment_image(in.pixels.data(), in.height, in.width, in.channels, augmentation, bits, fill,
                out.data());
  return out;
}

// The definition, pixel by pixel.
Bytes moved(const Picture& in, bool flip, int64_t down, int64_t right, uint8_t fill) {
  Bytes out;
  for (int64_t y = 0; y < in.height; ++y) {
    for (int64_t x = 0; x < in.width; ++x) {
      const int64_t from_y = y - down;
      const int64_t shifted_x = x - right;
      const int64_t from_x = flip ? in.width - 1 - shifted_x : shifted_x;
      const bool inside = from_y >= 0 && from_y < in.height && from_x >= 0 && from_x < in.width;
      for (int64_t c = 0; c < in.channels; ++c) {
        const int64_t place = (from_y * in.width + from_x) * in.channels + c;
        out.push_back(inside ? in.pixels[static_cast<size_t>(place)] : fill);
      }
    }
  }
  return out;
}

RC_GTEST_PROP(AugmentImage, IsOneOfTheAllowedMoves, (uint64_t bits, bool flip, uint8_t fill)) {
  Picture in;
  in.height = *rc::gen::inRange(1, 7);
  in.width = *rc::gen::inRange(1, 7);
  in.channels = *rc::gen::element(1, 3);
  in.pixels = *rc::gen::container<Bytes>(static_cast<size_t>(in.height * in.width * in.channels),
                                         rc::gen::arbitrary<uint8_t>());
  const int shift = *rc::gen::inRange(0, 5);
  const Bytes out = augment(in, {shift, flip}, bits, fill);
  bool found = false;
  for (int64_t down = -shift; down <= shift; ++down) {
    for (int64_t right = -shift; right <= shift; ++right) {
      found |= out == moved(in, false, down, right, fill);
      found |= flip && out == moved(in, true, down, right, fill);
    }
  }
  RC_ASSERT(found);
}

RC_GTEST_PROP(AugmentImage, LeavesThePictureAloneWithoutAugmentation, (uint64_t bits)) {
  const Picture in = {2, 3, 1, {1, 2, 3, 4, 5, 6}};
  RC_ASSERT(augment(in, {}, bits, 0) == in.pixels);
}

TEST(AugmentImage, ReachesEveryMoveEquallyOften) {
  Picture in = {9, 9, 1, Bytes(81)};
  for (size_t i = 0; i < in.pixels.size(); ++i) in.pixels[i] = static_cast<uint8_t>(i + 1);
  const Augmentation augmentation = {2, true};
  constexpr int kDraws = 50 * 200;  // 2 * 5 * 5 moves
  std::vector<int> seen(50);
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t bits = random_bits(1, RandomStream::kAugment, 0, static_cast<uint64_t>(i));
    const Bytes out = augment(in, augmentation, bits, 0);
    for (int move = 0; move < 50; ++move) {
      if (out == moved(in, move >= 25, move % 25 / 5 - 2, move % 5 - 2, 0)) {
        ++seen[static_cast<size_t>(move)];
        break;
      }
    }
  }
  for (const int count : seen) {  // 200 expected, standard deviation 14
    EXPECT_GT(count, 130);
    EXPECT_LT(count, 270);
  }
}

}  // namespace
}  // namespace mantissa
