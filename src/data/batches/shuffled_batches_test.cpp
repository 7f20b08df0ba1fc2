#include "data/batches/shuffled_batches.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/system/test_threads.h"
#include "data/batches/epoch_order.h"

namespace mantissa {
namespace {

using Bytes = std::vector<uint8_t>;

ExampleSet images_to_shuffle(int64_t count) {
  Bytes pixels(static_cast<size_t>(count * 60));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 31 + i / 60);
  std::vector<Label> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<Label>(i % 10));
  return picture_set({5, 4, 3}, pixels, labels);
}

struct ShuffledCopy {
  Bytes pixels;
  std::vector<int32_t> labels;
  std::vector<uint32_t> examples;
  bool operator==(const ShuffledCopy&) const = default;
};

// Options of a test: how batches are drawn, and how pictures are changed.
struct Options {
  ShuffleOptions shuffle;
  Augmentation augmentation = {};
};

Result<std::unique_ptr<ShuffledBatches>> make_batches(const ExampleSet& images,
                                                      const Options& options) {
  return ShuffledBatches::create(examples_of(images, options.augmentation, options.shuffle.seed),
                                 options.shuffle);
}

std::vector<ShuffledCopy> collect(const ExampleSet& images, const Options& options,
                                  std::chrono::microseconds pause = {}) {
  auto batches = make_batches(images, options);
  EXPECT_TRUE(batches.ok());
  std::vector<ShuffledCopy> copies;
  for (int64_t i = 0; i < options.shuffle.total_steps; ++i) {
    const Batch batch = (*batches)->next();
    if (pause.count() > 0) std::this_thread::sleep_for(pause);  // the buffers stay as they are
    EXPECT_EQ(batch.count, options.shuffle.batch_size);
    const auto* pixels = static_cast<const uint8_t*>(batch.find(kPixelTensor));
    const auto* labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
    copies.push_back({{pixels, pixels + batch.count * images.picture_form().bytes()},
                      {labels, labels + batch.count},
                      {batch.examples.begin(), batch.examples.end()}});
  }
  EXPECT_EQ((*batches)->next().count, 0);
  EXPECT_EQ((*batches)->next().find(kPixelTensor), nullptr);
  return copies;
}

TEST(ShuffledBatches, GivesTheAugmentedExamplesOfTheOrder) {
  const ExampleSet images = images_to_shuffle(23);
  const Options options = {{5, 7, 3, 0, 9}, {.shift = 2, .flip = 1}};
  const auto batches = collect(images, options);
  for (size_t n = 0; n < batches.size(); ++n) {
    const auto epoch = static_cast<uint32_t>(3 + n / 4);  // 4 batches of 5 in 23 examples
    const auto order = epoch_order(7, epoch, 23);
    for (size_t i = 0; i < 5; ++i) {
      const uint32_t example = order[n % 4 * 5 + i];
      ASSERT_EQ(batches[n].examples[i], example);
      ASSERT_EQ(batches[n].labels[i], images.labels()[example]);
      Bytes expected(60);
      augment_image(images.pixels().data() + example * 60, 5, 4, 3, options.augmentation,
                    augment_bits(7, epoch, example), 0, expected.data());
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                             batches[n].pixels.begin() + static_cast<int64_t>(i) * 60));
    }
  }
}

TEST(ShuffledBatches, UsesEachExampleAtMostOncePerEpoch) {
  const ExampleSet images = images_to_shuffle(50);
  const auto batches = collect(images, {{8, 1, 0, 0, 6 * 3}});
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    std::set<uint32_t> seen;
    for (size_t step = 0; step < 6; ++step) {
      for (const uint32_t index : batches[epoch * 6 + step].examples) {
        EXPECT_LT(index, 50u);
        EXPECT_TRUE(seen.insert(index).second);
      }
    }
  }
}

TEST(ShuffledBatches, DoesNotDependOnTiming) {
  const ExampleSet images = images_to_shuffle(50);
  const Options options = {{16, 1, 0, 0, 40}, {1, true}};
  const auto fast = collect(images, options);
  EXPECT_EQ(fast, collect(images, options, std::chrono::microseconds(500)));
  EXPECT_EQ(fast, collect(images, options));
}

RC_GTEST_PROP(ShuffledBatches, ResumesAnywhere, (uint64_t seed)) {
  const ExampleSet images = images_to_shuffle(*rc::gen::inRange<int64_t>(1, 40));
  const auto batch_size = *rc::gen::inRange<int64_t>(1, images.count + 1);
  const int64_t steps_per_epoch = images.count / batch_size;
  const auto all = collect(images, {{batch_size, seed, 0, 0, 12}, {1, true}});
  const auto done = *rc::gen::inRange<int64_t>(0, 13);
  Options options = {{batch_size, seed, 0, 0, 12 - done}, {1, true}};
  ShuffleOptions& shuffle = options.shuffle;
  shuffle.first_epoch = static_cast<uint32_t>(done / steps_per_epoch);
  shuffle.first_step = done % steps_per_epoch;
  if (shuffle.first_step == 0 && shuffle.first_epoch > 0 && *rc::gen::arbitrary<bool>()) {
    --shuffle.first_epoch;  // the end of an epoch is the start of the next
    shuffle.first_step = steps_per_epoch;
  }
  const auto rest = collect(images, options);
  RC_ASSERT(std::equal(rest.begin(), rest.end(), all.begin() + done, all.end()));
}

// Where no thread can be started, next() prepares the batches, and these are the same.
TEST(ShuffledBatches, DoesNotNeedItsThread) {
  const ExampleSet images = images_to_shuffle(50);
  const Options options = {{16, 1, 0, 2, 40}, {1, true}};
  const auto batches = collect(images, options);
  const ThreadLimit limit(0);
  auto prefetcher = make_batches(images, options);
  ASSERT_TRUE(prefetcher.ok());
  EXPECT_FALSE((*prefetcher)->works_ahead());
  EXPECT_EQ(batches, collect(images, options));
}

TEST(ShuffledBatches, StopsAtAnyMoment) {
  const ExampleSet images = images_to_shuffle(50);
  for (int taken = 0; taken < 8; ++taken) {
    auto prefetcher = make_batches(images, {{10, 1, 0, 0, 1'000'000}});
    ASSERT_TRUE(prefetcher.ok());
    for (int i = 0; i < taken; ++i) (*prefetcher)->next();
  }
}

TEST(ShuffledBatches, PredictsItsMemory) {
  const ExampleSet images = images_to_shuffle(50);
  auto prefetcher = make_batches(images, {{7, 1, 0, 0, 30}});
  ASSERT_TRUE(prefetcher.ok());
  const int64_t predicted = ShuffledBatches::predict_bytes(examples_of(images).specs, false, 50, 7);
  EXPECT_EQ(predicted, 3 * 7 * (60 + 4 + 4) + 50 * 4);
  EXPECT_EQ((*prefetcher)->bytes(), predicted);
  EXPECT_EQ((*prefetcher)->steps_per_epoch(), 7);
  for (int i = 0; i < 30; ++i) (*prefetcher)->next();
  EXPECT_EQ((*prefetcher)->bytes(), predicted);
}

TEST(ShuffledBatches, RefusesWhatCannotBe) {
  const ExampleSet images = images_to_shuffle(10);
  for (const ShuffleOptions& options : std::vector<ShuffleOptions>{{11, 1, 0, 0, 1},
                                                                   {0, 1, 0, 0, 1},
                                                                   {-1, 1, 0, 0, 1},
                                                                   {5, 1, 0, 3, 1},
                                                                   {5, 1, 0, -1, 1},
                                                                   {5, 1, 0, 0, -1}}) {
    EXPECT_FALSE(make_batches(images, {options}).ok());
  }
  EXPECT_FALSE(make_batches(images_to_shuffle(0), {{1, 1, 0, 0, 1}}).ok());
}

// Tensors of several types, and sequences of different lengths.
TEST(ShuffledBatches, DrawFromArraysOfAnyKind) {
  constexpr int64_t kCount = 21;
  std::vector<float> points;     // [21][2]
  std::vector<int32_t> words;    // [21][4]
  std::vector<int32_t> lengths;  // [21]
  std::vector<int64_t> targets;  // [21]
  for (int i = 0; i < kCount; ++i) {
    for (int k = 0; k < 2; ++k)
      points.push_back(static_cast<float>(i) + 0.25f * static_cast<float>(k));
    for (int k = 0; k < 4; ++k) words.push_back(1000 * i + k);
    lengths.push_back(i % 4 + 1);
    targets.push_back(int64_t{i} << 40);
  }
  const Examples examples =
      array_examples(kCount,
                     {{{"point", DataType::kFloat, Shape{2}}, points.data()},
                      {{"words", DataType::kInt32, Shape{4}}, words.data()},
                      {{"target", DataType::kInt64, Shape{}}, targets.data()}},
                     lengths);
  auto batches = ShuffledBatches::create(examples, {4, 9, 0, 0, 12});
  ASSERT_TRUE(batches.ok());
  EXPECT_EQ((*batches)->bytes(), ShuffledBatches::predict_bytes(examples.specs, true, kCount, 4));
  for (int64_t step = 0; step < 12; ++step) {
    const auto order = epoch_order(9, static_cast<uint32_t>(step / 5), kCount);
    const Batch batch = (*batches)->next();
    ASSERT_EQ(batch.count, 4);
    ASSERT_EQ(batch.lengths.size(), 4u);
    for (int64_t i = 0; i < 4; ++i) {
      const uint32_t example = order[static_cast<size_t>(step % 5 * 4 + i)];
      EXPECT_EQ(batch.examples[static_cast<size_t>(i)], example);
      EXPECT_EQ(batch.lengths[static_cast<size_t>(i)], lengths[example]);
      EXPECT_EQ(static_cast<const float*>(batch.find("point"))[2 * i + 1], points[2 * example + 1]);
      EXPECT_EQ(static_cast<const int32_t*>(batch.find("words"))[4 * i + 3],
                words[4 * example + 3]);
      EXPECT_EQ(static_cast<const int64_t*>(batch.find("target"))[i], targets[example]);
    }
    EXPECT_EQ(batch.find("pixels"), nullptr);
  }
}

}  // namespace
}  // namespace mantissa
