#include "data/batches/example_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/batches/examples.h"

namespace mantissa {
namespace {

// Pictures of two pixels, each example different.
ExampleSet numbered(int64_t count) {
  std::vector<uint8_t> pixels;
  std::vector<Label> labels;
  for (int64_t i = 0; i < count; ++i) {
    pixels.push_back(static_cast<uint8_t>(i / 256));
    pixels.push_back(static_cast<uint8_t>(i % 256));
    labels.push_back(static_cast<Label>(i % 7));
  }
  return picture_set({1, 2, 1}, pixels, labels);
}

std::vector<int> numbers(const ExampleSet& images) {
  std::vector<int> result;
  for (int64_t i = 0; i < images.count; ++i) {
    result.push_back(images.pixels()[2 * i] * 256 + images.pixels()[2 * i + 1]);
    EXPECT_EQ(images.labels()[i], result.back() % 7);
  }
  return result;
}

TEST(SplitOff, PartsAreDisjointCompleteAndInOrder) {
  for (const int64_t count : {0, 1, 100, 999}) {
    ExampleSet images = numbered(1000);
    const auto split = split_off(images, 5, count);
    ASSERT_TRUE(split.ok());
    const std::vector<int> kept = numbers(images), moved = numbers(*split);
    EXPECT_EQ(static_cast<int64_t>(moved.size()), count);
    EXPECT_EQ(static_cast<int64_t>(images.labels().size()), 1000 - count);
    EXPECT_EQ(static_cast<int64_t>(images.pixels().size()), 2 * (1000 - count));
    EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
    EXPECT_TRUE(std::is_sorted(moved.begin(), moved.end()));
    std::set<int> all(kept.begin(), kept.end());
    all.insert(moved.begin(), moved.end());
    EXPECT_EQ(all.size(), 1000u);
  }
}

// A tensor of a name and a shape that no code knows is divided like the others.
TEST(SplitOff, TakesAllTensors) {
  ExampleSet set{.count = 10};
  set.tensors = {{kTokenTensor, Shape{2}, std::vector<int16_t>(), 7},
                 {"more", Shape{1, 3}, std::vector<int32_t>()},
                 {kLabelTensor, Shape{}, std::vector<Label>(10, 3)}};
  for (int16_t i = 0; i < 10; ++i) {
    auto& tokens = set.tensors[0].as<int16_t>();
    auto& more = set.tensors[1].as<int32_t>();
    tokens.insert(tokens.end(), {i, -1});
    more.insert(more.end(), {i, 10 * i, 100 * i});
  }
  EXPECT_EQ(set.bytes(), 10 * (4 + 12 + 2));
  const auto split = split_off(set, 5, 4);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->tensors[0].padding, 7);
  EXPECT_EQ(split->labels(), std::vector<Label>(4, 3));
  std::set<int16_t> all;
  for (const ExampleSet* part : std::initializer_list<const ExampleSet*>{&set, &*split}) {
    const auto& tokens = part->numbers<int16_t>(kTokenTensor);
    const auto& more = part->numbers<int32_t>("more");
    ASSERT_EQ(std::ssize(tokens), 2 * part->count);
    ASSERT_EQ(std::ssize(more), 3 * part->count);
    for (int64_t i = 0; i < part->count; ++i) {
      all.insert(tokens[2 * i]);
      EXPECT_EQ(more[3 * i + 2], 100 * tokens[2 * i]);
    }
  }
  EXPECT_EQ(all.size(), 10u);
}

TEST(ExampleSet, LeavesMarkedExamplesOut) {
  ExampleSet set = numbered(4);
  erase_examples({true, false, true, false}, set);
  EXPECT_EQ(numbers(set), (std::vector<int>{1, 3}));
  EXPECT_EQ(set.pixels().size(), 4u);
}

// Tensors come into batches as they are stored, but for labels and for tokens with padding.
TEST(ExamplesOf, WritesEachTensor) {
  ExampleSet set{.count = 2};
  set.tensors = {{"more", Shape{2}, std::vector<int16_t>{1, 2, 3, 4}},
                 {kTokenTensor, Shape{3}, std::vector<int16_t>{5, 6, 7, 8, kNoToken, kNoToken}, 9},
                 {kLabelTensor, Shape{}, std::vector<Label>{0, 65535}}};
  const Examples examples = examples_of(set);
  std::vector<std::string> names;
  for (const TensorSpec& spec : examples.specs) names.push_back(to_string(spec));
  EXPECT_EQ(names, (std::vector<std::string>{"'more' (I16 [2])", "'tokens' (I32 [3])",
                                             "'segments' (I32 [3])", "'lengths' (I32 [])",
                                             "'labels' (I32 [])"}));
  int16_t more[2];
  int32_t tokens[3], segments[3] = {1, 1, 1}, length = 0, label = 0;
  std::byte* const places[] = {
      reinterpret_cast<std::byte*>(more), reinterpret_cast<std::byte*>(tokens),
      reinterpret_cast<std::byte*>(segments), reinterpret_cast<std::byte*>(&length),
      reinterpret_cast<std::byte*>(&label)};
  examples.write(0, 1, places);
  EXPECT_EQ(std::vector(more, more + 2), (std::vector<int16_t>{3, 4}));
  EXPECT_EQ(std::vector(tokens, tokens + 3), (std::vector<int32_t>{8, 9, 9}));
  EXPECT_EQ(std::vector(segments, segments + 3), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(length, 1);
  EXPECT_EQ(label, 65535);
  EXPECT_EQ(examples.length(0), 3);
  const Examples last = examples_from(1, 1, examples);
  EXPECT_EQ(last.length(0), 1);
  last.write(0, 0, places);
  EXPECT_EQ(more[0], 3);
}

TEST(SplitOff, IsAFunctionOfTheSeed) {
  const auto moved = [](uint64_t seed) {
    ExampleSet images = numbered(1000);
    return numbers(*split_off(images, seed, 100));
  };
  EXPECT_EQ(moved(1), moved(1));
  EXPECT_NE(moved(1), moved(2));
}

}  // namespace
}  // namespace mantissa
