#include "formats/jpeg.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <string>

#include "base/test_folder.h"
#include "formats/test_jpeg.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

// Blocks of 8 x 8 equal pixels: at quality 100 nothing but the colour conversion is rounded.
Bytes blocks(int width, int height, const std::vector<Bytes>& colours) {
  Bytes pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Bytes& colour = colours[static_cast<size_t>(x / 8 + y / 8) % colours.size()];
      pixels.insert(pixels.end(), colour.begin(), colour.end());
    }
  }
  return pixels;
}

void expect_near(const Bytes& found, const Bytes& wanted, int most) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - wanted[i]), most) << "at byte " << i;
  }
}

class Jpeg : public testing::TestWithParam<bool> {
 protected:
  Image read(RawJpeg raw, int channels) {
    raw.progressive = GetParam();
    put_jpeg(folder_ / "a.jpg", raw);
    auto image = read_jpeg(folder_ / "a.jpg", channels);
    EXPECT_TRUE(image.ok()) << image.error().message;
    const auto header = read_jpeg_header(folder_ / "a.jpg");
    EXPECT_TRUE(header.ok());
    if (!image.ok() || !header.ok()) return {};
    EXPECT_EQ(header->height, image->height);
    EXPECT_EQ(header->width, image->width);
    EXPECT_EQ(header->channels, raw.space == JCS_GRAYSCALE ? 1 : 3);
    EXPECT_GE(header->decoding_bytes, image->height * image->width * (GetParam() ? 5 : 3));
    return std::move(*image);
  }
  TestFolder folder_;
};

TEST_P(Jpeg, ReadsGrey) {
  const Bytes pixels = blocks(20, 13, {{0}, {255}, {77}});
  EXPECT_EQ(read({20, 13, JCS_GRAYSCALE, pixels}, 1).pixels, pixels);
  const Image colour = read({20, 13, JCS_GRAYSCALE, pixels}, 3);
  for (size_t i = 0; i < pixels.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) ASSERT_EQ(colour.pixels[3 * i + c], pixels[i]);
  }
}

TEST_P(Jpeg, ReadsColourAsRgbOrGrey) {
  const std::vector<Bytes> colours = {{255, 0, 0}, {10, 200, 30}, {128, 128, 128}};
  const RawJpeg raw = {24, 16, JCS_RGB, blocks(24, 16, colours)};
  const Image image = read(raw, 3);
  EXPECT_EQ(image.height, 16);
  EXPECT_EQ(image.width, 24);
  expect_near(image.pixels, raw.pixels, 2);
  const Image grey = read(raw, 1);
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    const uint8_t* rgb = image.pixels.data() + 3 * i;
    ASSERT_EQ(grey.pixels[i], grey_of(rgb[0], rgb[1], rgb[2]));
  }
}

TEST_P(Jpeg, ReadsCmyk) {
  // As Adobe stores it: 255 is no ink.
  const RawJpeg raw = {16, 8, JCS_CMYK, blocks(16, 8, {{255, 255, 255, 128}, {0, 255, 51, 255}})};
  expect_near(read(raw, 3).pixels, blocks(16, 8, {{128, 128, 128}, {0, 255, 51}}), 2);
}

TEST_P(Jpeg, FindsTruncationAtEveryLength) {
  put_jpeg(folder_ / "whole.jpg", {18, 9, JCS_RGB, Bytes(18 * 9 * 3, 90), 90, GetParam()});
  const std::string whole = get_file(folder_ / "whole.jpg");
  for (size_t length = 0; length < whole.size(); ++length) {
    put_file(folder_ / "a.jpg", whole.substr(0, length));
    const auto image = read_jpeg(folder_ / "a.jpg", 3);
    ASSERT_FALSE(image.ok()) << length;
    EXPECT_NE(image.error().message.find("a.jpg"), std::string::npos);
  }
}

TEST_P(Jpeg, SurvivesEveryFlippedBit) {
  Bytes noise;
  for (int i = 0; i < 16 * 16 * 3; ++i) noise.push_back(static_cast<uint8_t>(i * 37 % 251));
  put_jpeg(folder_ / "whole.jpg", {16, 16, JCS_RGB, noise, 60, GetParam()});
  const std::string whole = get_file(folder_ / "whole.jpg");
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    put_file(folder_ / "a.jpg", damaged);
    const auto image = read_jpeg(folder_ / "a.jpg", 3);
    if (!image.ok()) continue;
    EXPECT_EQ(static_cast<int64_t>(image->pixels.size()), 3 * image->height * image->width);
  }
}

INSTANTIATE_TEST_SUITE_P(ProgressiveOrNot, Jpeg, testing::Bool());

RC_GTEST_PROP(JpegOfAnything, IsAPictureOrAnError, ()) {
  const TestFolder folder;
  put_jpeg(folder / "a.jpg",
           {16, 16, JCS_RGB, Bytes(16 * 16 * 3, 9), 75, *rc::gen::arbitrary<bool>()});
  std::string bytes = get_file(folder / "a.jpg");
  const int changes = *rc::gen::inRange(1, 8);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<size_t>(2, bytes.size());
    bytes[at] = *rc::gen::arbitrary<char>();
  }
  bytes.resize(*rc::gen::inRange<size_t>(2, bytes.size() + 1));
  put_file(folder / "a.jpg", bytes);
  const auto image = read_jpeg(folder / "a.jpg", 3);
  if (!image.ok()) {
    RC_ASSERT(image.error().message.find("a.jpg") != std::string::npos);
  } else {
    RC_ASSERT(static_cast<int64_t>(image->pixels.size()) == 3 * image->height * image->width);
  }
}

TEST(JpegRefusal, OfSizesThatTheFileCannotHold) {
  const TestFolder folder;
  put_jpeg(folder / "a.jpg", {8, 8, JCS_GRAYSCALE, Bytes(64, 1)});
  std::string bytes = get_file(folder / "a.jpg");
  const size_t frame = bytes.find("\xff\xc0") + 5;  // height and width, 16 bits each
  const auto refusal = [&](const char* size) {
    put_file(folder / "b.jpg", std::string(bytes).replace(frame, 4, std::string(size, 4)));
    const auto image = read_jpeg(folder / "b.jpg", 3);
    EXPECT_FALSE(read_jpeg_header(folder / "b.jpg").ok());
    return image.ok() ? std::string("accepted") : image.error().message;
  };
  EXPECT_NE(refusal("\x20\x00\x20\x00").find("more than it can hold"), std::string::npos);
  EXPECT_NE(refusal("\x40\x00\x20\x00").find("too large"), std::string::npos);
  EXPECT_NE(refusal("\x60\x00\x00\x01").find("too large"), std::string::npos);
  EXPECT_NE(refusal("\x00\x08\x00\x00").find("damaged"), std::string::npos);
}

TEST(JpegRefusal, SaysWhatIsWrong) {
  const TestFolder folder;
  put_file(folder / "a.jpg", std::string("GIF89a, not JPEG"));
  EXPECT_NE(read_jpeg(folder / "a.jpg", 3).error().message.find("JPEG"), std::string::npos);
  EXPECT_NE(read_jpeg(folder / "a.jpg", 2).error().message.find("not 2"), std::string::npos);
  EXPECT_FALSE(read_jpeg(folder / "missing.jpg", 3).ok());
  put_jpeg(folder / "b.jpg", {8, 8, JCS_GRAYSCALE, Bytes(64, 1), 90, false, true});
  EXPECT_NE(read_jpeg(folder / "b.jpg", 1).error().message.find("arithmetic"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
