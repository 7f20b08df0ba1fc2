#include "data/batches/ordered_batches.h"

#include <gtest/gtest.h>

#include <numeric>

namespace mantissa {
namespace {

ExampleSet make_images(int64_t count) {
  std::vector<uint8_t> pixels(static_cast<size_t>(6 * count));
  std::iota(pixels.begin(), pixels.end(), uint8_t{0});
  std::vector<Label> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<Label>(1000 * i));
  return picture_set({2, 3, 1}, pixels, labels);
}

// The numbers of the examples in each batch, which has their pixels and labels.
std::vector<std::vector<uint32_t>> numbers(const ExampleSet& images, OrderedBatches& batches) {
  std::vector<std::vector<uint32_t>> all;
  while (true) {
    const Batch batch = batches.next();
    if (batch.count == 0) return all;
    all.emplace_back(batch.examples.begin(), batch.examples.end());
    const auto* pixels = static_cast<const uint8_t*>(batch.find(kPixelTensor));
    const auto* labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
    for (size_t i = 0; i < batch.examples.size(); ++i) {
      EXPECT_EQ(labels[i], images.labels()[batch.examples[i]]);
      for (size_t k = 0; k < 6; ++k) {
        EXPECT_EQ(pixels[6 * i + k], images.pixels()[6 * batch.examples[i] + k]);
      }
    }
  }
}

using Numbers = std::vector<std::vector<uint32_t>>;

TEST(OrderedBatches, GiveEachExampleOnce) {
  const ExampleSet images = make_images(8);
  auto batches = OrderedBatches::create(examples_of(images), 3);
  ASSERT_TRUE(batches.ok());
  EXPECT_EQ(numbers(images, *batches), (Numbers{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_EQ(batches->next().count, 0);
}

TEST(OrderedBatches, FollowAList) {
  const ExampleSet images = make_images(40);
  auto batches = OrderedBatches::create(examples_of(images), 2, {39, 0, 7, 7});
  ASSERT_TRUE(batches.ok());
  EXPECT_EQ(batches->count(), 4);
  EXPECT_EQ(numbers(images, *batches), (Numbers{{39, 0}, {7, 7}}));
  auto none = OrderedBatches::create(examples_of(images), 2, {});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->next().count, 0);
}

TEST(OrderedBatches, GoOnAnywhere) {
  const ExampleSet images = make_images(8);
  auto batches = OrderedBatches::create(examples_of(images), 3);
  ASSERT_TRUE(batches.ok());
  batches->go_to(1);
  EXPECT_EQ(numbers(images, *batches), (Numbers{{3, 4, 5}, {6, 7}}));
  batches->go_to(0);
  EXPECT_EQ(numbers(images, *batches), (Numbers{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  batches->go_to(100);
  EXPECT_EQ(batches->next().count, 0);
}

TEST(OrderedBatches, RefuseWhatCannotBe) {
  const ExampleSet images = make_images(8);
  EXPECT_FALSE(OrderedBatches::create(examples_of(images), 0).ok());
  EXPECT_FALSE(OrderedBatches::create(examples_of(images), -3).ok());
}

}  // namespace
}  // namespace mantissa
