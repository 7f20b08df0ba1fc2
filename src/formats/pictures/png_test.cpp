#include "formats/pictures/png.h"

#include <gtest/gtest.h>
#include <png.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "base/test_folder.h"
#include "formats/pictures/test_exif.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// A picture in any of PNG's forms; `rows` is as PNG stores it.
struct RawPng {
  int width, height, depth, color_type, interlace;
  std::vector<uint8_t> rows;
  std::vector<png_color> palette = {};
  std::vector<uint8_t> palette_alpha = {};
};

void put_png(const fs::path& path, const RawPng& raw) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  png_set_IHDR(png, info, raw.width, raw.height, raw.depth, raw.color_type, raw.interlace,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!raw.palette.empty()) {
    png_set_PLTE(png, info, raw.palette.data(), static_cast<int>(raw.palette.size()));
  }
  if (!raw.palette_alpha.empty()) {
    png_set_tRNS(png, info, raw.palette_alpha.data(), static_cast<int>(raw.palette_alpha.size()),
                 nullptr);
  }
  png_write_info(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  std::vector<uint8_t> copy = raw.rows;
  std::vector<png_bytep> rows;
  for (int y = 0; y < raw.height; ++y) rows.push_back(copy.data() + y * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  std::fclose(file);
}

using Bytes = std::vector<uint8_t>;

class PngForms : public testing::TestWithParam<int> {
 protected:
  // Writes and reads back; interlaced and not.
  Bytes read(const RawPng& raw, int channels) {
    RawPng copy = raw;
    copy.interlace = GetParam();
    put_png(folder_ / "a.png", copy);
    const auto image = read_png(folder_ / "a.png", channels);
    EXPECT_TRUE(image.ok()) << image.error().message;
    if (!image.ok()) return {};
    EXPECT_EQ(image->width, raw.width);
    EXPECT_EQ(image->height, raw.height);
    EXPECT_EQ(image->channels, channels);
    return image->pixels;
  }
  TestFolder folder_;
};

TEST_P(PngForms, ReadsGreyOfEveryDepth) {
  EXPECT_EQ(read({3, 1, 1, PNG_COLOR_TYPE_GRAY, 0, {0b10100000}}, 1), (Bytes{255, 0, 255}));
  EXPECT_EQ(read({4, 1, 2, PNG_COLOR_TYPE_GRAY, 0, {0b00011011}}, 1), (Bytes{0, 85, 170, 255}));
  EXPECT_EQ(read({2, 1, 4, PNG_COLOR_TYPE_GRAY, 0, {0x3f}}, 1), (Bytes{51, 255}));
  EXPECT_EQ(read({2, 2, 8, PNG_COLOR_TYPE_GRAY, 0, {1, 2, 3, 254}}, 1), (Bytes{1, 2, 3, 254}));
  EXPECT_EQ(read({2, 1, 8, PNG_COLOR_TYPE_GRAY, 0, {7, 9}}, 3), (Bytes{7, 7, 7, 9, 9, 9}));
  EXPECT_EQ(read({2, 1, 16, PNG_COLOR_TYPE_GRAY, 0, {0xff, 0xff, 0x12, 0xf0}}, 1),
            (Bytes{255, 0x13}));
}

TEST_P(PngForms, ReadsColourAsRgbOrGrey) {
  const RawPng raw = {2, 1, 8, PNG_COLOR_TYPE_RGB, 0, {255, 0, 0, 10, 200, 30}};
  EXPECT_EQ(read(raw, 3), raw.rows);
  EXPECT_EQ(read(raw, 1), (Bytes{76, 124}));
}

TEST_P(PngForms, PutsTransparentPixelsOnBlack) {
  EXPECT_EQ(read({3, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, 0, {200, 255, 200, 128, 200, 0}}, 1),
            (Bytes{200, 100, 0}));
  EXPECT_EQ(read({1, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, 0, {255, 100, 0, 51}}, 3), (Bytes{51, 20, 0}));
  EXPECT_EQ(read({1, 1, 16, PNG_COLOR_TYPE_RGB_ALPHA, 0, {255, 255, 0, 0, 0, 0, 255, 255}}, 3),
            (Bytes{255, 0, 0}));
}

TEST_P(PngForms, ReadsPalettes) {
  const RawPng raw = {3,
                      1,
                      2,
                      PNG_COLOR_TYPE_PALETTE,
                      0,
                      {0b00011000},
                      {{1, 2, 3}, {4, 5, 6}, {200, 100, 50}},
                      {255, 255, 0}};
  EXPECT_EQ(read(raw, 3), (Bytes{1, 2, 3, 4, 5, 6, 0, 0, 0}));
}

INSTANTIATE_TEST_SUITE_P(InterlacedOrNot, PngForms,
                         testing::Values(PNG_INTERLACE_NONE, PNG_INTERLACE_ADAM7));

RC_GTEST_PROP(Png, GivesBackWhatWasWritten, ()) {
  const TestFolder folder;
  Image image;
  image.height = *rc::gen::inRange(1, 20);
  image.width = *rc::gen::inRange(1, 20);
  image.channels = *rc::gen::element(1, 3);
  image.pixels =
      *rc::gen::container<Bytes>(static_cast<size_t>(image.height * image.width * image.channels),
                                 rc::gen::arbitrary<uint8_t>());
  RC_ASSERT(write_png(folder / "a.png", image).ok());
  RC_ASSERT(write_png(folder / "b.png", image).ok());
  RC_ASSERT(get_file(folder / "a.png") == get_file(folder / "b.png"));
  const auto read = read_png(folder / "a.png", static_cast<int>(image.channels));
  RC_ASSERT(read.ok());
  RC_ASSERT(read->pixels == image.pixels);
  RC_ASSERT(read->height == image.height && read->width == image.width);
}

TEST(Png, WritesOnlyWhatPngCanHold) {
  const TestFolder folder;
  for (const Image& image : {Image{0, 1, 1, {}}, Image{1, 1, 2, {1, 2}}, Image{1, 2, 1, {1}},
                             Image{-1, -1, 1, {1}}, Image{1, 16385, 1, Bytes(16385)}}) {
    EXPECT_FALSE(write_png(folder / "a.png", image).ok());
  }
  EXPECT_EQ(folder.count(), 0);
}

class HostilePng : public testing::TestWithParam<int> {
 protected:
  std::string valid() {
    put_png(folder_ / "valid.png", {5, 4, 8, PNG_COLOR_TYPE_RGB, GetParam(), Bytes(60, 77)});
    return get_file(folder_ / "valid.png");
  }
  Result<Image> read(const std::string& bytes) {
    put_file(folder_ / "a.png", bytes);
    return read_png(folder_ / "a.png", 3);
  }
  TestFolder folder_;
};

TEST_P(HostilePng, FindsTruncationAtEveryLength) {
  const std::string whole = valid();
  ASSERT_TRUE(read(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto image = read(whole.substr(0, length));
    ASSERT_FALSE(image.ok()) << length;
    EXPECT_NE(image.error().message.find("a.png"), std::string::npos);
  }
}

TEST_P(HostilePng, SurvivesEveryFlippedBit) {
  const std::string whole = valid();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto image = read(damaged);
    EXPECT_EQ(image.ok() ? image->pixels.size() : 60u, 60u);
  }
}

INSTANTIATE_TEST_SUITE_P(InterlacedOrNot, HostilePng,
                         testing::Values(PNG_INTERLACE_NONE, PNG_INTERLACE_ADAM7));

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + body +
         big_endian(static_cast<uint32_t>(sum));
}

// A file of these chunks between the header and the end.
std::string png_file(int width, int height, int color_type, const std::string& chunks) {
  std::string rest = {8, 0, 0, 0, 0};
  rest[1] = static_cast<char>(color_type);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(static_cast<uint32_t>(width)) +
                           big_endian(static_cast<uint32_t>(height)) + rest) +
         chunks + chunk("IEND", "");
}

std::string deflated(const std::string& rows) {
  std::string out(compressBound(rows.size()), '\0');
  uLongf bytes = out.size();
  compress(reinterpret_cast<Bytef*>(out.data()), &bytes,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  return out.substr(0, bytes);
}

// The chunk with its last byte changed, which is part of the checksum.
std::string spoilt(std::string chunk) {
  chunk.back() = static_cast<char>(chunk.back() ^ 1);
  return chunk;
}

class PngChunks : public testing::Test {
 protected:
  // The pixels, or an error.
  std::string read(const std::string& bytes) {
    put_file(folder_ / "a.png", bytes);
    const auto image = read_png(folder_ / "a.png", 3);
    if (!image.ok()) return image.error().message;
    return {image->pixels.begin(), image->pixels.end()};
  }
  const std::string rows_ = std::string("\0\1\2\3", 4);  // filter, and a pixel
  const std::string pixels_ = chunk("IDAT", deflated(rows_));
  TestFolder folder_;
};

TEST_F(PngChunks, ThatPixelsDoNotDependOnMayBeDamaged) {
  const std::string profile = std::string("p\0\0", 3) + "no profile";
  for (const std::string& chunks :
       {chunk("iCCP", profile) + pixels_, spoilt(chunk("iCCP", profile)) + pixels_,
        chunk("iCCP", "") + pixels_, spoilt(chunk("tEXt", "a")) + pixels_,
        chunk("tEXt", std::string(3 << 20, 'x')) + pixels_, pixels_ + spoilt(chunk("tIME", "")),
        chunk("gAMA", std::string(4, '\0')) + pixels_, chunk("sRGB", "\7") + pixels_,
        chunk("eXIf", "no EXIF") + pixels_, spoilt(chunk("eXIf", exif_block(6, true))) + pixels_,
        chunk("IDAT", deflated(rows_) + "more") + pixels_,
        chunk("IDAT", deflated(rows_ + rows_))}) {
    EXPECT_EQ(read(png_file(1, 1, PNG_COLOR_TYPE_RGB, chunks)), "\1\2\3");
  }
}

TEST_F(PngChunks, ThatPixelsDependOnMayNot) {
  const auto expect_refusal = [&](int color_type, const std::string& chunks, const char* part) {
    const std::string found = read(png_file(1, 1, color_type, chunks));
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect_refusal(PNG_COLOR_TYPE_RGB, spoilt(pixels_), "CRC error");
  expect_refusal(PNG_COLOR_TYPE_RGB, chunk("IDAT", spoilt(deflated(rows_))), "data check");
  const std::string clear = chunk("tRNS", std::string("\0\1\0\2\0\3", 6));
  EXPECT_EQ(read(png_file(1, 1, PNG_COLOR_TYPE_RGB, clear + pixels_)), std::string(3, '\0'));
  expect_refusal(PNG_COLOR_TYPE_RGB, spoilt(clear) + pixels_, "tRNS: CRC error");
  const std::string palette = chunk("PLTE", "abcdef");
  const std::string index = chunk("IDAT", deflated(std::string("\0\1", 2)));
  EXPECT_EQ(read(png_file(1, 1, PNG_COLOR_TYPE_PALETTE, palette + index)), "def");
  expect_refusal(PNG_COLOR_TYPE_PALETTE, spoilt(palette) + index, "CRC error");
  expect_refusal(PNG_COLOR_TYPE_PALETTE, index, "PLTE");
}

TEST_F(PngChunks, MaySayHowThePictureStands) {
  const std::string pixels = chunk("IDAT", deflated(std::string("\0\1\2\3", 4)));
  for (const auto& [chunks, first] : {std::pair(chunk("eXIf", exif_block(6, false)) + pixels, 1),
                                      std::pair(chunk("eXIf", exif_block(8, true)) + pixels, 3)}) {
    put_file(folder_ / "a.png", png_file(3, 1, PNG_COLOR_TYPE_GRAY, chunks));
    const auto image = read_png(folder_ / "a.png", 1);
    const auto header = read_png_header(folder_ / "a.png");
    ASSERT_TRUE(image.ok() && header.ok());
    EXPECT_EQ(image->height, 3);
    EXPECT_EQ(header->height, 3);
    EXPECT_EQ(header->width, 1);
    EXPECT_EQ(image->pixels[0], first);
  }
}

TEST(Png, RefusesAbsurdSizesBeforeAllocating) {
  const TestFolder folder;
  const auto refusal = [&](uint32_t width, uint32_t height) {
    const std::string rest = {8, 6, 0, 0, 0};
    put_file(folder / "a.png", "\x89PNG\r\n\x1a\n" +
                                   chunk("IHDR", big_endian(width) + big_endian(height) + rest) +
                                   chunk("IDAT", "xxxxxxxx") + chunk("IEND", ""));
    const auto image = read_png(folder / "a.png", 3);
    return image.ok() ? std::string("accepted") : image.error().message;
  };
  EXPECT_NE(refusal(16384, 16384).find("more than it can hold"), std::string::npos);
  EXPECT_NE(refusal(16385, 1).find("IHDR"), std::string::npos) << refusal(16385, 1);
  EXPECT_NE(refusal(0, 1).find("IHDR"), std::string::npos);
  EXPECT_NE(refusal(0xffffffff, 0xffffffff).find("out of range"), std::string::npos);
}

TEST(Png, SaysWhatIsWrong) {
  const TestFolder folder;
  put_file(folder / "a.png", std::string("GIF89a, not PNG"));
  EXPECT_NE(read_png(folder / "a.png", 3).error().message.find("not a PNG"), std::string::npos);
  EXPECT_NE(read_png(folder / "a.png", 4).error().message.find("not 4"), std::string::npos);
  EXPECT_FALSE(read_png(folder / "missing.png", 3).ok());
}

// The picture's size tells how many bytes its pixels take: no more is unpacked.
TEST_F(PngChunks, AreNotUnpackedBeyondThePixels) {
  std::string zeros = deflated(rows_ + std::string(size_t{400} << 20, '\0'));
  EXPECT_NE(read(png_file(1, 1, PNG_COLOR_TYPE_RGB, chunk("IDAT", zeros)))
                .find("more data follow its pixels than they need"),
            std::string::npos);
  const std::string text =
      chunk("zTXt", std::string("k\0\0", 3) + deflated(std::string(1'000'000, 'a')));
  std::string texts;
  for (int i = 0; i < 400; ++i) texts += text;
  const std::string with_texts = png_file(1, 1, PNG_COLOR_TYPE_RGB, texts + pixels_);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(read(with_texts), "\1\2\3");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - before;
  EXPECT_LT(seconds.count(), 0.25);  // unpacked they are 400 MB: seconds
}

}  // namespace
}  // namespace mantissa
