#include "formats/pictures/image.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"
#include "formats/pictures/png.h"
#include "formats/pictures/test_jpeg.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Image, KindIsFoundByContent) {
  const TestFolder folder;
  ASSERT_TRUE(write_png(folder / "really-png.jpg", {2, 3, 1, {1, 2, 3, 4, 5, 6}}).ok());
  put_jpeg(folder / "really-jpeg.png", {8, 16, JCS_GRAYSCALE, Bytes(128, 200)});
  const auto png = read_image(folder / "really-png.jpg", 1);
  ASSERT_TRUE(png.ok()) << png.error().message;
  EXPECT_EQ(png->pixels, (Bytes{1, 2, 3, 4, 5, 6}));
  const auto jpeg = read_image(folder / "really-jpeg.png", 3);
  ASSERT_TRUE(jpeg.ok()) << jpeg.error().message;
  EXPECT_EQ(jpeg->pixels, Bytes(384, 200));
  const auto header = read_image_header(folder / "really-png.jpg");
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->height, 2);
  EXPECT_EQ(header->width, 3);
  EXPECT_EQ(header->channels, 1);
}

TEST(Image, AnythingElseIsRefused) {
  const TestFolder folder;
  put_file(folder / "a.png", std::string());
  EXPECT_NE(read_image(folder / "a.png", 1).error().message.find("empty"), std::string::npos);
  put_file(folder / "b.png", std::string("\xff\xd8"));
  EXPECT_NE(read_image(folder / "b.png", 1).error().message.find("neither PNG nor JPEG"),
            std::string::npos);
  EXPECT_FALSE(read_image_header(folder / "b.png").ok());
  EXPECT_FALSE(read_image(folder.path(), 1).ok());
}

TEST(Image, NamesOfPictures) {
  for (const char* name : {"a.png", "b.JPG", "c.d.jpeg", "/x/y.Png"}) {
    EXPECT_TRUE(has_image_name(name)) << name;
  }
  for (const char* name : {"a", ".png", "a.png.txt", "a.gif", "apng"}) {
    EXPECT_FALSE(has_image_name(name)) << name;
  }
}

TEST(Image, ChannelsAreConverted) {
  const Bytes rgb = {255, 0, 0, 10, 200, 30};
  Bytes grey(2), back(6);
  convert_channels(rgb.data(), 3, 2, 1, grey.data());
  EXPECT_EQ(grey, (Bytes{76, 124}));
  convert_channels(grey.data(), 1, 2, 3, back.data());
  EXPECT_EQ(back, (Bytes{76, 76, 76, 124, 124, 124}));
  convert_channels(rgb.data(), 3, 2, 3, back.data());
  EXPECT_EQ(back, rgb);
}

TEST(Images, OfOtherFormatsAreCalledByTheirNames) {
  const TestFolder folder;
  const std::pair<std::string, const char*> cases[] = {
      {std::string("RIFF\x24\0\0\0WEBPVP8 ", 16), "is a WebP picture"},
      {"GIF89a          ", "is a GIF picture"},
      {std::string("\0\0\0\x20"
                   "ftypavif\0\0\0\0",
                   16),
       "is an AVIF picture"},
      {std::string("\0\0\0\x18"
                   "ftypheic\0\0\0\0",
                   16),
       "is a HEIC picture"},
      {std::string("II*\0\x08\0\0\0        ", 16), "is a TIFF picture"},
      {"BM              ", "is a BMP picture"},
      {"<!DOCTYPE html> ", "is a web page"},
      {std::string("PK\3\4            ", 16), "is a ZIP archive"}};
  for (const auto& [bytes, name] : cases) {
    put_file(folder / "a.jpg", bytes);
    const std::string message = read_image(folder / "a.jpg", 3).error().message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find("PNG and JPEG are read: convert it"), std::string::npos) << message;
  }
  put_file(folder / "a.jpg",
           std::string("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"));
  EXPECT_NE(read_image(folder / "a.jpg", 3).error().message.find("is a pointer of Git LFS"),
            std::string::npos);
}

}  // namespace
}  // namespace mantissa
