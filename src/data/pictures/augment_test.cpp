#include "data/pictures/augment.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(ParseAugmentation, ReadsAndPrints) {
  EXPECT_EQ(parse_augmentation("none").value(), Augmentation{});
  EXPECT_EQ(parse_augmentation("shift").value(), Augmentation{.shift = 2});
  EXPECT_EQ(parse_augmentation("flip").value(), Augmentation{.flip = 1});
  EXPECT_EQ(parse_augmentation("shift,flip").value(), (Augmentation{.shift = 2, .flip = 1}));
  EXPECT_EQ(parse_augmentation("flip,shift=16").value(), (Augmentation{.shift = 16, .flip = 1}));
  EXPECT_EQ(parse_augmentation("cutout,crop,jitter").value(),
            (Augmentation{.crop = 4, .jitter = 20, .cutout = 8}));
  for (const Augmentation& augmentation :
       {Augmentation{}, Augmentation{.shift = 5}, Augmentation{.flip = 1},
        Augmentation{.shift = 1, .flip = 1, .crop = 64, .jitter = 100, .cutout = 4096}}) {
    EXPECT_EQ(parse_augmentation(to_string(augmentation)).value(), augmentation);
  }
  EXPECT_EQ(to_string(Augmentation{.shift = 2, .flip = 1, .cutout = 7}), "shift=2,flip,cutout=7");
}

TEST(ParseAugmentation, RefusesAnythingElse) {
  for (const char* text :
       {"",          ",",       "flip,",      "flip,flip", "shift,shift=3",
        "none,flip", "shift=0", "shift=17",   "shift=-1",  "shift=",
        "shift=2x",  "shift2",  "Flip",       "shift= 2",  "shift=99999999999999999999",
        "flip=1",    "crop=65", "jitter=101", "cutout=0",  "cut"}) {
    const auto augmentation = parse_augmentation(text);
    ASSERT_FALSE(augmentation.ok()) << text;
    EXPECT_NE(augmentation.error().message.find("write none, or several of shift[=2] (1 to 16)"),
              std::string::npos);
  }
}

struct Picture {
  int64_t height, width, channels;
  Bytes pixels;
};

Bytes augment(const Picture& in, const Augmentation& augmentation, const AugmentBits& bits,
              uint8_t fill = 0) {
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
  const Bytes out = augment(in, {.shift = shift, .flip = flip}, {.move = bits}, fill);
  bool found = false;
  for (int64_t down = -shift; down <= shift; ++down) {
    for (int64_t right = -shift; right <= shift; ++right) {
      found |= out == moved(in, false, down, right, fill);
      found |= flip && out == moved(in, true, down, right, fill);
    }
  }
  RC_ASSERT(found);
}

// Labels of pixels stay with their pixels: with grey pictures whose pixels are the labels, both are
// moved alike. Jitter and cutout change pictures alone.
RC_GTEST_PROP(MoveLabels, MovesThemAsThePixels, (uint64_t move, uint64_t crop, bool flip)) {
  Picture in;
  in.height = *rc::gen::inRange(1, 7);
  in.width = *rc::gen::inRange(1, 7);
  in.channels = 1;
  in.pixels = *rc::gen::container<Bytes>(static_cast<size_t>(in.height * in.width),
                                         rc::gen::inRange<uint8_t>(0, 200));
  Augmentation augmentation{.shift = *rc::gen::inRange(0, 5),
                            .flip = flip,
                            .crop = *rc::gen::inRange(0, 4)};
  const AugmentBits bits{.move = move, .crop = crop, .jitter = move, .cutout = crop};
  const Bytes pixels = augment(in, augmentation, bits, 255);
  augmentation.jitter = 50, augmentation.cutout = 3;
  const std::vector<uint16_t> labels(in.pixels.begin(), in.pixels.end());
  std::vector<int32_t> out(labels.size(), 99);
  move_labels(labels.data(), in.height, in.width, augmentation, bits, -1, out.data());
  for (size_t i = 0; i < out.size(); ++i) RC_ASSERT(out[i] == (pixels[i] == 255 ? -1 : pixels[i]));
}

RC_GTEST_PROP(AugmentImage, LeavesThePictureAloneWithoutAugmentation, (uint64_t bits)) {
  const Picture in = {2, 3, 1, {1, 2, 3, 4, 5, 6}};
  RC_ASSERT(augment(in, {}, {bits, bits, bits, bits}) == in.pixels);
}

TEST(AugmentImage, ReachesEveryMoveEquallyOften) {
  Picture in = {9, 9, 1, Bytes(81)};
  for (size_t i = 0; i < in.pixels.size(); ++i) in.pixels[i] = static_cast<uint8_t>(i + 1);
  const Augmentation augmentation = {.shift = 2, .flip = 1};
  constexpr int kDraws = 50 * 200;  // 2 * 5 * 5 moves
  std::vector<int> seen(50);
  for (int i = 0; i < kDraws; ++i) {
    const Bytes out = augment(in, augmentation, augment_bits(1, 0, static_cast<uint32_t>(i)));
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

// Runs with shift and flip alone drew these bits from the beginning.
TEST(AugmentBits, OfMovesAreThoseOfTheExample) {
  const AugmentBits bits = augment_bits(7, 3, 12345);
  EXPECT_EQ(bits.move, random_bits(7, RandomStream::kAugment, 3, 12345));
  EXPECT_NE(bits.crop, bits.move);
  EXPECT_NE(bits.jitter, bits.crop);
  EXPECT_NE(bits.cutout, bits.jitter);
}

Picture any_picture() {
  Picture in;
  in.height = *rc::gen::inRange(1, 7);
  in.width = *rc::gen::inRange(1, 7);
  in.channels = *rc::gen::element(1, 3);
  in.pixels = *rc::gen::container<Bytes>(static_cast<size_t>(in.height * in.width * in.channels),
                                         rc::gen::arbitrary<uint8_t>());
  return in;
}

// The picture with a mirrored border of `pad`, as a definition of crop.
Bytes padded_window(const Picture& in, int64_t top, int64_t left) {
  const auto mirrored = [](int64_t at, int64_t size) {
    if (size == 1) return int64_t{0};
    const int64_t period = 2 * (size - 1), place = ((at % period) + period) % period;
    return place < size ? place : period - place;
  };
  Bytes out;
  for (int64_t y = 0; y < in.height; ++y) {
    for (int64_t x = 0; x < in.width; ++x) {
      for (int64_t c = 0; c < in.channels; ++c) {
        const int64_t place =
            (mirrored(y + top, in.height) * in.width + mirrored(x + left, in.width)) * in.channels;
        out.push_back(in.pixels[static_cast<size_t>(place + c)]);
      }
    }
  }
  return out;
}

RC_GTEST_PROP(Crop, IsAWindowOfTheMirroredPicture, (uint64_t bits)) {
  const Picture in = any_picture();
  const int pad = *rc::gen::inRange(1, 9);
  const Bytes out = augment(in, {.crop = pad}, {.crop = bits});
  bool found = false;
  for (int64_t top = -pad; top <= pad; ++top) {
    for (int64_t left = -pad; left <= pad; ++left) found |= out == padded_window(in, top, left);
  }
  RC_ASSERT(found);
}

RC_GTEST_PROP(Crop, ComesAfterFlipAndShift, (uint64_t move, uint64_t crop)) {
  const Picture in = any_picture();
  Picture moved_first = in;
  moved_first.pixels = augment(in, {.shift = 2, .flip = 1}, {.move = move});
  RC_ASSERT(augment(in, {.shift = 2, .flip = 1, .crop = 3}, {.move = move, .crop = crop}) ==
            augment(moved_first, {.crop = 3}, {.crop = crop}));
}

RC_GTEST_PROP(Cutout, IsASquareWithinThePicture, (uint64_t bits)) {
  Picture in = any_picture();
  for (uint8_t& value : in.pixels) value |= 1;
  const int side = *rc::gen::inRange(1, 9);
  const Bytes out = augment(in, {.cutout = side}, {.cutout = bits});
  int64_t top = in.height, bottom = -1, left = in.width, right = -1, cut = 0;
  for (int64_t i = 0; i < in.height * in.width; ++i) {
    const auto place = static_cast<size_t>(i * in.channels);
    if (out[place] != 0) {
      RC_ASSERT(out[place] == in.pixels[place]);
      continue;
    }
    ++cut;
    top = std::min(top, i / in.width), bottom = std::max(bottom, i / in.width);
    left = std::min(left, i % in.width), right = std::max(right, i % in.width);
  }
  RC_ASSERT(cut >= 1);
  RC_ASSERT(cut == (bottom - top + 1) * (right - left + 1));
  RC_ASSERT(bottom - top < side && right - left < side);
  RC_ASSERT(bottom - top + 1 == side || top == 0 || bottom == in.height - 1);
  RC_ASSERT(right - left + 1 == side || left == 0 || right == in.width - 1);
}

}  // namespace
}  // namespace mantissa
