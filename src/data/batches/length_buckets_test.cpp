// Batches of sequences of similar length.
#include "data/batches/length_buckets.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "data/batches/epoch_order.h"
#include "data/batches/ordered_batches.h"
#include "data/batches/shuffled_batches.h"

namespace mantissa {
namespace {

constexpr int64_t kSequence = 32;

// Examples of up to 32 words: word k of example i is 100 i + k, those behind its length are -1.
class Sentences {
 public:
  explicit Sentences(std::vector<int32_t> lengths) : lengths_(std::move(lengths)) {
    for (size_t i = 0; i < lengths_.size(); ++i) {
      for (int32_t k = 0; k < kSequence; ++k) {
        words_.push_back(k < lengths_[i] ? static_cast<int32_t>(100 * i) + k : -1);
      }
      pairs_.push_back(static_cast<int16_t>(i));
      pairs_.push_back(static_cast<int16_t>(-1 - static_cast<int>(i)));
    }
  }

  Examples examples() const {
    return array_examples(std::ssize(lengths_),
                          {{{"words", DataType::kInt32, Shape{kSequence}}, words_.data()},
                           {{"pair", DataType::kInt16, Shape{2}}, pairs_.data()}},
                          lengths_);
  }
  std::span<const int32_t> lengths() const { return lengths_; }

 private:
  std::vector<int32_t> lengths_, words_;
  std::vector<int16_t> pairs_;
};

struct BatchCopy {
  std::vector<uint32_t> examples;
  std::vector<int32_t> words;
  std::vector<int16_t> pairs;
  int64_t length = 0;
  bool operator==(const BatchCopy&) const = default;
};

BatchCopy copy_of(const Batch& batch) {
  BatchCopy copy{{batch.examples.begin(), batch.examples.end()}, {}, {}, batch.specs[0].shape[0]};
  const auto* words = static_cast<const int32_t*>(batch.find("words"));
  const auto* pairs = static_cast<const int16_t*>(batch.find("pair"));
  copy.words.assign(words, words + batch.count * copy.length);
  copy.pairs.assign(pairs, pairs + batch.count * 2);
  return copy;
}

std::vector<BatchCopy> collect(const Sentences& sentences, const ShuffleOptions& options) {
  auto batches = ShuffledBatches::create(sentences.examples(), options);
  EXPECT_TRUE(batches.ok());
  std::vector<BatchCopy> copies;
  for (Batch batch = (*batches)->next(); batch.count > 0; batch = (*batches)->next()) {
    copies.push_back(copy_of(batch));
  }
  return copies;
}

TEST(LengthBuckets, AreMultiplesOfEight) {
  EXPECT_EQ(batch_lengths(64, 4), (BatchLengths{16, 32, 48, 64}));
  EXPECT_EQ(batch_lengths(64, 1), (BatchLengths{64}));
  EXPECT_EQ(batch_lengths(100, 3), (BatchLengths{40, 72, 100}));
  EXPECT_EQ(batch_lengths(16, 4), (BatchLengths{8, 16}));
  EXPECT_EQ(batch_lengths(5, 4), (BatchLengths{5}));
  const BatchLengths lengths = {16, 32, 48};
  EXPECT_EQ(bucket_of(lengths, 0), 0);
  EXPECT_EQ(bucket_of(lengths, 16), 0);
  EXPECT_EQ(bucket_of(lengths, 17), 1);
  EXPECT_EQ(bucket_of(lengths, 48), 2);
  EXPECT_EQ(bucket_of(lengths, 99), 2);
}

RC_GTEST_PROP(LengthBuckets, HaveEachExampleOnceAnEpochInABatchOfItsLength, (uint64_t seed)) {
  const auto count = *rc::gen::inRange<size_t>(1, 200);
  const Sentences sentences(*rc::gen::container<std::vector<int32_t>>(
      count, rc::gen::inRange<int32_t>(1, kSequence + 1)));
  const auto size = *rc::gen::inRange<int64_t>(1, static_cast<int64_t>(count) + 1);
  const BatchLengths lengths = batch_lengths(kSequence, *rc::gen::inRange<int64_t>(1, 6));
  const int64_t steps = static_cast<int64_t>(count) / size;
  const ShuffleOptions options{
      .batch_size = size, .seed = seed, .total_steps = 2 * steps, .lengths = lengths};
  const auto batches = collect(sentences, options);
  RC_ASSERT(batches == collect(sentences, options));
  int64_t wrong_lengths = 0;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<uint32_t> seen, expected = epoch_order(seed, epoch, count);
    expected.resize(static_cast<size_t>(steps * size));
    for (int64_t step = 0; step < steps; ++step) {
      const BatchCopy& batch = batches[static_cast<size_t>(epoch * steps + step)];
      int32_t longest = 0, shortest = kSequence;
      for (size_t i = 0; i < batch.examples.size(); ++i) {
        const uint32_t example = batch.examples[i];
        const int32_t length = sentences.lengths()[example];
        longest = std::max(longest, length);
        shortest = std::min(shortest, length);
        for (int32_t k = 0; k < batch.length; ++k) {
          const auto at = i * static_cast<size_t>(batch.length) + static_cast<size_t>(k);
          RC_ASSERT(batch.words[at] == (k < length ? static_cast<int32_t>(100 * example) + k : -1));
        }
        RC_ASSERT(batch.pairs[2 * i] == static_cast<int16_t>(example));
      }
      RC_ASSERT(batch.length == lengths[static_cast<size_t>(bucket_of(lengths, longest))]);
      wrong_lengths += bucket_of(lengths, shortest) != bucket_of(lengths, longest) ? 1 : 0;
      seen.insert(seen.end(), batch.examples.begin(), batch.examples.end());
    }
    std::ranges::sort(seen);
    std::ranges::sort(expected);
    RC_ASSERT(seen == expected);
  }
  // Only where one bucket ends and the next begins a batch has examples of both.
  RC_ASSERT(wrong_lengths <= 2 * (std::ssize(lengths) - 1));
}

RC_GTEST_PROP(LengthBuckets, ResumeAnywhere, (uint64_t seed)) {
  const auto count = *rc::gen::inRange<size_t>(1, 60);
  const Sentences sentences(*rc::gen::container<std::vector<int32_t>>(
      count, rc::gen::inRange<int32_t>(1, kSequence + 1)));
  const auto size = *rc::gen::inRange<int64_t>(1, static_cast<int64_t>(count) + 1);
  const int64_t steps = static_cast<int64_t>(count) / size;
  ShuffleOptions options{
      .batch_size = size, .seed = seed, .total_steps = 12, .lengths = batch_lengths(kSequence, 4)};
  const auto all = collect(sentences, options);
  const auto done = *rc::gen::inRange<int64_t>(0, 13);
  options.first_epoch = static_cast<uint32_t>(done / steps);
  options.first_step = done % steps;
  options.total_steps = 12 - done;
  const auto rest = collect(sentences, options);
  RC_ASSERT(std::equal(rest.begin(), rest.end(), all.begin() + done, all.end()));
}

// Long batches are not all at one end of an epoch, and epochs differ.
TEST(LengthBuckets, AreShuffled) {
  std::vector<int32_t> lengths(400);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i % 2 == 0 ? 4 : 30;
  const Sentences sentences(lengths);
  const auto batches = collect(
      sentences,
      {.batch_size = 4, .seed = 3, .total_steps = 200, .lengths = batch_lengths(kSequence, 2)});
  std::string epochs[2];
  for (size_t i = 0; i < batches.size(); ++i)
    epochs[i / 100] += batches[i].length == 32 ? 'l' : 's';
  EXPECT_NE(epochs[0], epochs[1]);
  for (const std::string& epoch : epochs) {
    EXPECT_EQ(std::ranges::count(epoch, 'l'), 50);
    const auto in_first_half = std::count(epoch.begin(), epoch.begin() + 50, 'l');
    EXPECT_GT(in_first_half, 12);
    EXPECT_LT(in_first_half, 38);
  }
}

TEST(LengthBuckets, MeasureEachExampleOnceAtItsLength) {
  const Sentences sentences({3, 9, 31, 32, 1, 8, 17, 24, 2, 5, 30});
  auto batches = OrderedBatches::create_by_length(sentences.examples(), 3, {8, 16, 32});
  ASSERT_TRUE(batches.ok());
  std::vector<uint32_t> seen;
  std::vector<int64_t> lengths;
  for (Batch batch = batches->next(); batch.count > 0; batch = batches->next()) {
    const BatchCopy copy = copy_of(batch);
    lengths.push_back(copy.length);
    seen.insert(seen.end(), copy.examples.begin(), copy.examples.end());
    for (size_t i = 0; i < copy.examples.size(); ++i) {
      EXPECT_EQ(copy.words[i * static_cast<size_t>(copy.length)],
                static_cast<int32_t>(100 * copy.examples[i]));
    }
  }
  EXPECT_EQ(lengths, (std::vector<int64_t>{8, 16, 32, 32}));
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 4, 5, 8, 9, 1, 2, 3, 6, 7, 10}));
}

// One length gives the batches that there are without.
TEST(LengthBuckets, OfOneLengthChangeNothing) {
  const Sentences sentences({3, 9, 31, 32, 1, 8, 17, 24, 2});
  const ShuffleOptions whole{.batch_size = 2, .seed = 5, .total_steps = 11};
  ShuffleOptions one = whole;
  one.lengths = batch_lengths(kSequence, 1);
  EXPECT_EQ(collect(sentences, one), collect(sentences, whole));
}

TEST(LengthBuckets, PredictTheirMemory) {
  const Sentences sentences({3, 9, 31, 32, 1, 8, 17, 24, 2});
  const Examples examples = sentences.examples();
  const BatchLengths lengths = batch_lengths(kSequence, 4);
  auto batches = ShuffledBatches::create(
      examples, {.batch_size = 2, .seed = 5, .total_steps = 3, .lengths = lengths});
  ASSERT_TRUE(batches.ok());
  EXPECT_EQ((*batches)->bytes(),
            ShuffledBatches::predict_bytes(examples.specs, true, 9, 2, lengths));
}

TEST(LengthBuckets, WantExamplesWithLengths) {
  Examples examples = Sentences({3, 9}).examples();
  examples.length = nullptr;
  const auto batches = ShuffledBatches::create(
      examples, {.batch_size = 1, .total_steps = 1, .lengths = batch_lengths(kSequence, 4)});
  ASSERT_FALSE(batches.ok());
  EXPECT_NE(batches.error().message.find("lengths"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
