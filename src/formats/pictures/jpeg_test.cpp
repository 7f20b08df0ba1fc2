#include "formats/pictures/jpeg.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <string>

#include "base/test_folder.h"
#include "formats/pictures/test_exif.h"
#include "formats/pictures/test_jpeg.h"

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

// A segment right after the start of the file.
std::string with_segment(const std::string& jpeg, char marker, const std::string& data) {
  const size_t length = data.size() + 2;
  std::string segment = {'\xff', marker, static_cast<char>(length >> 8), static_cast<char>(length)};
  return std::string(jpeg).insert(2, segment + data);
}

constexpr char kApp0 = '\xe0', kApp1 = '\xe1', kApp2 = '\xe2', kApp14 = '\xee';

TEST(JpegOrientation, IsApplied) {
  const TestFolder folder;
  put_jpeg(folder / "a.jpg", {16, 8, JCS_GRAYSCALE, blocks(16, 8, {{10}, {200}})});
  const std::string stored = get_file(folder / "a.jpg");
  const auto exif = [&](int orientation) {
    return std::string("Exif\0\0", 6) + exif_block(orientation, orientation % 2 == 0);
  };
  put_file(folder / "b.jpg", with_segment(stored, kApp1, exif(8)));
  const auto turned = read_jpeg(folder / "b.jpg", 1);
  const auto header = read_jpeg_header(folder / "b.jpg");
  ASSERT_TRUE(turned.ok() && header.ok());
  EXPECT_EQ(turned->height, 16);
  EXPECT_EQ(turned->width, 8);
  EXPECT_EQ(header->height, 16);
  EXPECT_EQ(header->width, 8);
  EXPECT_EQ(turned->pixels.front(), 200);
  EXPECT_EQ(turned->pixels.back(), 10);
  // The first EXIF block counts. Other segments of this number hold other data.
  const std::string xmp = "http://ns.adobe.com/xap/1.0/";
  put_file(
      folder / "b.jpg",
      with_segment(with_segment(with_segment(stored, kApp1, exif(8)), kApp1, exif(3)), kApp1, xmp));
  const auto first = read_jpeg(folder / "b.jpg", 3);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->width, 16);
  EXPECT_EQ(first->pixels.front(), 200);
  put_file(folder / "b.jpg", with_segment(stored, kApp1, exif(6).substr(0, 20)));
  const auto damaged = read_jpeg(folder / "b.jpg", 1);
  ASSERT_TRUE(damaged.ok()) << damaged.error().message;
  EXPECT_EQ(damaged->pixels, read_jpeg(folder / "a.jpg", 1)->pixels);
}

// Other decoders pass over these faults in silence. They are no damage: pixels stay the same.
TEST(JpegWarning, OfWhatPixelsDoNotDependOnIsHarmless) {
  const TestFolder folder;
  put_jpeg(folder / "clean.jpg", {16, 8, JCS_RGB, blocks(16, 8, {{10, 90, 200}, {200, 10, 0}})});
  const std::string clean = get_file(folder / "clean.jpg");
  const auto pixels = read_jpeg(folder / "clean.jpg", 3)->pixels;
  std::string zeros = clean;
  const size_t scan = clean.find("\xff\xda") + 2;
  const auto components = static_cast<size_t>(clean[scan + 2]);
  zeros.replace(scan + 3 + 2 * components, 3, 3, '\0');  // Ss, Se, Ah and Al
  ASSERT_NE(zeros, clean);
  const std::pair<const char*, std::string> files[] = {
      {"Ss = Se = 0", zeros},
      {"bytes between segments", std::string(clean).insert(2, "abc")},
      {"bytes after the scan", std::string(clean).insert(clean.size() - 2, "\1\2\3")},
      {"bytes after the end", clean + "anything"},
      {"an unknown revision of JFIF", with_segment(clean.substr(0, 2) + clean.substr(20), kApp0,
                                                   std::string("JFIF\0\7\1\0\0\1\0\1\0\0", 14))},
      {"an unknown transform of Adobe's",
       with_segment(clean, kApp14, std::string("Adobe\0\x64\0\0\0\0\7", 12))},
      {"a profile that is none", with_segment(clean, kApp2, std::string("ICC_PROFILE\0\5\1", 14))}};
  for (const auto& [what, bytes] : files) {
    put_file(folder / "a.jpg", bytes);
    const auto image = read_jpeg(folder / "a.jpg", 3);
    ASSERT_TRUE(image.ok()) << what << ": " << image.error().message;
    EXPECT_EQ(image->pixels, pixels) << what;
  }
}

TEST(JpegWarning, OfPixelsThatAreMissingIsDamage) {
  const TestFolder folder;
  Bytes noise;
  for (int i = 0; i < 64 * 64; ++i) noise.push_back(static_cast<uint8_t>(i * i * 37 % 251));
  put_jpeg(folder / "a.jpg", {64, 64, JCS_GRAYSCALE, noise, 90});
  const std::string whole = get_file(folder / "a.jpg");
  const auto refusal = [&](const std::string& bytes) {
    put_file(folder / "b.jpg", bytes);
    const auto image = read_jpeg(folder / "b.jpg", 1);
    return image.ok() ? std::string("accepted") : image.error().message;
  };
  ASSERT_EQ(refusal(whole), "accepted");
  // The scan ends early, though the file has its end marker.
  const std::string early = refusal(whole.substr(0, whole.size() - 200) + "\xff\xd9");
  EXPECT_NE(early.find("premature end of data segment"), std::string::npos) << early;
  const std::string code =
      refusal(std::string(whole).replace(whole.size() - 600, 8, "\xff\0\xff\0\xff\0\xff\0", 8));
  EXPECT_NE(code.find("bad Huffman code"), std::string::npos) << code;
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
