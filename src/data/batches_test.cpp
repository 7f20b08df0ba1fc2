#include "data/batches.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/test_threads.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(EpochOrder, IsFixed) {
  // Known answers: another order would change every training run.
  EXPECT_EQ(epoch_order(1, 0, 8), (std::vector<uint32_t>{1, 2, 7, 4, 5, 3, 0, 6}));
  EXPECT_EQ(epoch_order(1, 1, 8), (std::vector<uint32_t>{7, 6, 2, 0, 4, 3, 1, 5}));
  EXPECT_NE(epoch_order(1, 0, 100), epoch_order(1, 1, 100));
  EXPECT_NE(epoch_order(1, 0, 100), epoch_order(2, 0, 100));
  EXPECT_TRUE(epoch_order(1, 0, 0).empty());
  EXPECT_EQ(epoch_order(1, 0, 1), std::vector<uint32_t>{0});
}

RC_GTEST_PROP(EpochOrder, IsAPermutation, (uint64_t seed, uint32_t epoch)) {
  const auto count = *rc::gen::inRange<int64_t>(0, 300);
  std::vector<uint32_t> order = epoch_order(seed, epoch, count);
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < count; ++i) RC_ASSERT(order[static_cast<size_t>(i)] == i);
}

TEST(EpochOrder, GivesEveryPermutationEquallyOften) {
  std::vector<int> seen(24);
  for (uint32_t epoch = 0; epoch < 24 * 200; ++epoch) {
    const auto order = epoch_order(5, epoch, 4);
    std::vector<uint32_t> permutation = {0, 1, 2, 3};
    size_t number = 0;
    while (permutation != order) {
      std::next_permutation(permutation.begin(), permutation.end());
      ++number;
    }
    ++seen[number];
  }
  for (const int count : seen) {  // 200 expected, standard deviation 14
    EXPECT_GT(count, 130);
    EXPECT_LT(count, 270);
  }
}

ImageSet make_images(int64_t count) {
  ImageSet images{count, 5, 4, 3, Bytes(static_cast<size_t>(count * 60)), {}};
  for (size_t i = 0; i < images.pixels.size(); ++i) {
    images.pixels[i] = static_cast<uint8_t>(i * 31 + i / 60);
  }
  for (int64_t i = 0; i < count; ++i) images.labels.push_back(static_cast<uint8_t>(i % 10));
  return images;
}

struct BatchCopy {
  Bytes pixels, labels;
  std::vector<uint32_t> indices;
  bool operator==(const BatchCopy&) const = default;
};

std::vector<BatchCopy> collect(const ImageSet& images, const BatchOptions& options,
                               std::chrono::microseconds pause = {}) {
  auto prefetcher = BatchPrefetcher::create(images, options);
  EXPECT_TRUE(prefetcher.ok());
  std::vector<BatchCopy> batches;
  for (int64_t i = 0; i < options.total_steps; ++i) {
    const Batch batch = (*prefetcher)->next();
    if (pause.count() > 0) std::this_thread::sleep_for(pause);  // the buffers stay as they are
    const int64_t size = options.batch_size;
    batches.push_back({{batch.pixels, batch.pixels + size * images.example_bytes()},
                       {batch.labels, batch.labels + size},
                       {batch.indices, batch.indices + size}});
  }
  EXPECT_EQ((*prefetcher)->next().pixels, nullptr);
  EXPECT_EQ((*prefetcher)->next().pixels, nullptr);
  return batches;
}

TEST(BatchPrefetcher, GivesTheAugmentedExamplesOfTheOrder) {
  const ImageSet images = make_images(23);
  const BatchOptions options = {5, 7, {.shift = 2, .flip = 1}, 3, 0, 9};
  const auto batches = collect(images, options);
  for (size_t n = 0; n < batches.size(); ++n) {
    const auto epoch = static_cast<uint32_t>(3 + n / 4);  // 4 batches of 5 in 23 examples
    const auto order = epoch_order(7, epoch, 23);
    for (size_t i = 0; i < 5; ++i) {
      const uint32_t example = order[n % 4 * 5 + i];
      ASSERT_EQ(batches[n].indices[i], example);
      ASSERT_EQ(batches[n].labels[i], images.labels[example]);
      Bytes expected(60);
      augment_image(images.pixels.data() + example * 60, 5, 4, 3, options.augmentation,
                    augment_bits(7, epoch, example), 0, expected.data());
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                             batches[n].pixels.begin() + static_cast<int64_t>(i) * 60));
    }
  }
}

TEST(BatchPrefetcher, UsesEachExampleAtMostOncePerEpoch) {
  const ImageSet images = make_images(50);
  const auto batches = collect(images, {8, 1, {}, 0, 0, 6 * 3});
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    std::set<uint32_t> seen;
    for (size_t step = 0; step < 6; ++step) {
      for (const uint32_t index : batches[epoch * 6 + step].indices) {
        EXPECT_LT(index, 50u);
        EXPECT_TRUE(seen.insert(index).second);
      }
    }
  }
}

TEST(BatchPrefetcher, DoesNotDependOnTiming) {
  const ImageSet images = make_images(50);
  const BatchOptions options = {16, 1, {1, true}, 0, 0, 40};
  const auto fast = collect(images, options);
  EXPECT_EQ(fast, collect(images, options, std::chrono::microseconds(500)));
  EXPECT_EQ(fast, collect(images, options));
}

RC_GTEST_PROP(BatchPrefetcher, ResumesAnywhere, (uint64_t seed)) {
  const ImageSet images = make_images(*rc::gen::inRange<int64_t>(1, 40));
  const auto batch_size = *rc::gen::inRange<int64_t>(1, images.count + 1);
  const int64_t steps_per_epoch = images.count / batch_size;
  const auto all = collect(images, {batch_size, seed, {1, true}, 0, 0, 12});
  const auto done = *rc::gen::inRange<int64_t>(0, 13);
  BatchOptions options = {batch_size, seed, {1, true}, 0, 0, 12 - done};
  options.first_epoch = static_cast<uint32_t>(done / steps_per_epoch);
  options.first_step = done % steps_per_epoch;
  if (options.first_step == 0 && options.first_epoch > 0 && *rc::gen::arbitrary<bool>()) {
    --options.first_epoch;  // the end of an epoch is the start of the next
    options.first_step = steps_per_epoch;
  }
  const auto rest = collect(images, options);
  RC_ASSERT(std::equal(rest.begin(), rest.end(), all.begin() + done, all.end()));
}

// Where no thread can be started, next() prepares the batches, and these are the same.
TEST(BatchPrefetcher, DoesNotNeedItsThread) {
  const ImageSet images = make_images(50);
  BatchOptions options = {16, 1, {1, true}, 0, 2, 40};
  const auto batches = collect(images, options);
  const ThreadLimit limit(0);
  auto prefetcher = BatchPrefetcher::create(images, options);
  ASSERT_TRUE(prefetcher.ok());
  EXPECT_FALSE((*prefetcher)->works_ahead());
  EXPECT_EQ(batches, collect(images, options));
}

TEST(BatchPrefetcher, StopsAtAnyMoment) {
  const ImageSet images = make_images(50);
  for (int taken = 0; taken < 8; ++taken) {
    auto prefetcher = BatchPrefetcher::create(images, {10, 1, {}, 0, 0, 1'000'000});
    ASSERT_TRUE(prefetcher.ok());
    for (int i = 0; i < taken; ++i) (*prefetcher)->next();
  }
}

TEST(BatchPrefetcher, PredictsItsMemory) {
  const ImageSet images = make_images(50);
  auto prefetcher = BatchPrefetcher::create(images, {7, 1, {}, 0, 0, 30});
  ASSERT_TRUE(prefetcher.ok());
  const int64_t predicted = BatchPrefetcher::predict_buffer_bytes(50, 60, 7);
  EXPECT_EQ(predicted, 3 * 7 * (60 + 1 + 4) + 50 * 4);
  EXPECT_EQ((*prefetcher)->buffer_bytes(), predicted);
  EXPECT_EQ((*prefetcher)->steps_per_epoch(), 7);
  for (int i = 0; i < 30; ++i) (*prefetcher)->next();
  EXPECT_EQ((*prefetcher)->buffer_bytes(), predicted);
}

TEST(BatchPrefetcher, RefusesWhatCannotBe) {
  const ImageSet images = make_images(10);
  for (const BatchOptions& options : std::vector<BatchOptions>{{11, 1, {}, 0, 0, 1},
                                                               {0, 1, {}, 0, 0, 1},
                                                               {-1, 1, {}, 0, 0, 1},
                                                               {5, 1, {}, 0, 3, 1},
                                                               {5, 1, {}, 0, -1, 1},
                                                               {5, 1, {}, 0, 0, -1}}) {
    EXPECT_FALSE(BatchPrefetcher::create(images, options).ok());
  }
  EXPECT_FALSE(BatchPrefetcher::create(ImageSet{}, {1, 1, {}, 0, 0, 1}).ok());
}

}  // namespace
}  // namespace mantissa
