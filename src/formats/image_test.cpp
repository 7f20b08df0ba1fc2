#include "formats/image.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"
#include "formats/png.h"
#include "formats/test_jpeg.h"

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

}  // namespace
}  // namespace mantissa
