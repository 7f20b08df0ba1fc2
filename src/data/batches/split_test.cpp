#include "data/batches/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mantissa {
namespace {

// Pictures of two pixels, each example different.
ImageSet numbered(int64_t count) {
  ImageSet images{
      .count = count, .height = 1, .width = 2, .channels = 1, .pixels = {}, .labels = {}};
  for (int64_t i = 0; i < count; ++i) {
    images.pixels.push_back(static_cast<uint8_t>(i / 256));
    images.pixels.push_back(static_cast<uint8_t>(i % 256));
    images.labels.push_back(static_cast<uint8_t>(i % 7));
  }
  return images;
}

std::vector<int> numbers(const ImageSet& images) {
  std::vector<int> result;
  for (int64_t i = 0; i < images.count; ++i) {
    result.push_back(images.pixels[2 * i] * 256 + images.pixels[2 * i + 1]);
    EXPECT_EQ(images.labels[i], result.back() % 7);
  }
  return result;
}

TEST(SplitOff, PartsAreDisjointCompleteAndInOrder) {
  for (const int64_t count : {0, 1, 100, 999}) {
    ImageSet images = numbered(1000);
    const auto split = split_off(images, 5, count);
    ASSERT_TRUE(split.ok());
    const std::vector<int> kept = numbers(images), moved = numbers(*split);
    EXPECT_EQ(static_cast<int64_t>(moved.size()), count);
    EXPECT_EQ(static_cast<int64_t>(images.labels.size()), 1000 - count);
    EXPECT_EQ(static_cast<int64_t>(images.pixels.size()), 2 * (1000 - count));
    EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
    EXPECT_TRUE(std::is_sorted(moved.begin(), moved.end()));
    std::set<int> all(kept.begin(), kept.end());
    all.insert(moved.begin(), moved.end());
    EXPECT_EQ(all.size(), 1000u);
  }
}

TEST(SplitOff, TextsStayTexts) {
  ImageSet texts{
      .count = 10, .pixels = {}, .labels = std::vector<Label>(10, 3), .features = 2, .padding = 7};
  for (int16_t i = 0; i < 10; ++i) texts.numbers.insert(texts.numbers.end(), {i, -1});
  const auto split = split_off(texts, 5, 4);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->padding, 7);
  EXPECT_EQ(split->features, 2);
  EXPECT_EQ(split->numbers.size(), 8u);
  EXPECT_EQ(split->labels, std::vector<Label>(4, 3));
  std::set<int16_t> all(texts.numbers.begin(), texts.numbers.end());
  all.insert(split->numbers.begin(), split->numbers.end());
  EXPECT_EQ(all.size(), 11u);
}

TEST(SplitOff, IsAFunctionOfTheSeed) {
  const auto moved = [](uint64_t seed) {
    ImageSet images = numbered(1000);
    return numbers(*split_off(images, seed, 100));
  };
  EXPECT_EQ(moved(1), moved(1));
  EXPECT_NE(moved(1), moved(2));
}

}  // namespace
}  // namespace mantissa
