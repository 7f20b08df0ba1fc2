#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mantissa {
namespace {

TEST(Synthetic, IsAPureFunctionOfTheSeed) {
  const auto info = synthetic_info(7, 5, 3, 10, 64);
  ASSERT_TRUE(info.ok());
  const ImageSet images = synthetic_images(*info, 1);
  EXPECT_EQ(images.pixels.size(), 7u * 5 * 3 * 64);
  EXPECT_EQ(images.labels.size(), 64u);
  EXPECT_EQ(images.pixels, synthetic_images(*info, 1).pixels);
  EXPECT_EQ(images.labels, synthetic_images(*info, 1).labels);
  EXPECT_NE(images.pixels, synthetic_images(*info, 2).pixels);
}

TEST(Synthetic, UsesAllBytesAndOnlyTheClassesThatThereAre) {
  const auto info = synthetic_info(28, 28, 1, 3, 100);
  ASSERT_TRUE(info.ok());
  const ImageSet images = synthetic_images(*info, 7);
  EXPECT_EQ(std::set<uint8_t>(images.pixels.begin(), images.pixels.end()).size(), 256u);
  EXPECT_EQ(std::set<Label>(images.labels.begin(), images.labels.end()),
            (std::set<Label>{0, 1, 2}));
}

TEST(Synthetic, RefusesWhatCannotBe) {
  EXPECT_FALSE(synthetic_info(0, 28, 1, 10, 1).ok());
  EXPECT_FALSE(synthetic_info(28, 28, 1, 10, 0).ok());
  EXPECT_FALSE(synthetic_info(28, 28, 1, kMaxClasses + 1, 1).ok());
  EXPECT_FALSE(synthetic_info(1 << 20, 1 << 20, 3, 10, 1 << 20).ok());
  EXPECT_FALSE(synthetic_info(int64_t{1} << 40, int64_t{1} << 40, 3, 10, 1).ok());
}

}  // namespace
}  // namespace mantissa
