#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/batches/examples.h"

namespace mantissa {
namespace {

TEST(Synthetic, IsAPureFunctionOfTheSeed) {
  const auto info = synthetic_info(7, 5, 3, 10, 64);
  ASSERT_TRUE(info.ok());
  const ExampleSet images = synthetic_examples(*info, 1);
  EXPECT_EQ(images.pixels().size(), 7u * 5 * 3 * 64);
  EXPECT_EQ(images.labels().size(), 64u);
  EXPECT_EQ(images.pixels(), synthetic_examples(*info, 1).pixels());
  EXPECT_EQ(images.labels(), synthetic_examples(*info, 1).labels());
  EXPECT_NE(images.pixels(), synthetic_examples(*info, 2).pixels());
}

TEST(Synthetic, UsesAllBytesAndOnlyTheClassesThatThereAre) {
  const auto info = synthetic_info(28, 28, 1, 3, 100);
  ASSERT_TRUE(info.ok());
  const ExampleSet images = synthetic_examples(*info, 7);
  EXPECT_EQ(std::set<uint8_t>(images.pixels().begin(), images.pixels().end()).size(), 256u);
  EXPECT_EQ(std::set<Label>(images.labels().begin(), images.labels().end()),
            (std::set<Label>{0, 1, 2}));
}

TEST(Synthetic, TextsHaveTheArraysOfTheirTask) {
  for (const TextTask task : {TextTask::kNextToken, TextTask::kMasks, TextTask::kTranslation}) {
    const auto info = synthetic_text_info(task, 16, 50, 64);
    ASSERT_TRUE(info.ok());
    const ExampleSet texts = synthetic_examples(*info, 1);
    const auto specs = specs_for(task, 16);
    ASSERT_EQ(examples_of(texts).specs, specs);
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto& array = texts.numbers<int32_t>(specs[i].name);
      EXPECT_EQ(std::ssize(array), 64 * specs[i].shape.count());
      const auto [least, most] = std::minmax_element(array.begin(), array.end());
      const bool is_length = specs[i].shape.rank == 0;
      const bool ignores = task == TextTask::kMasks && specs[i].name == kLabelTensor;
      const bool is_constant = is_length || specs[i].name == kSegmentTensor;
      EXPECT_EQ(*least, ignores ? kIgnoredLabel : is_length ? 16 : 0) << specs[i].name;
      EXPECT_EQ(*most, is_length ? 16 : is_constant ? 0 : 49) << specs[i].name;
      const auto ignored = std::count(array.begin(), array.end(), kIgnoredLabel);
      EXPECT_NEAR(static_cast<double>(ignored), ignores ? 0.85 * 64 * 16 : 0, ignores ? 60 : 0);
    }
    const auto tokens = [&](uint64_t seed) {
      return synthetic_examples(*info, seed).numbers<int32_t>(specs[0].name);
    };
    EXPECT_EQ(tokens(1), tokens(1));
    EXPECT_NE(tokens(1), tokens(2));
  }
}

TEST(Synthetic, RefusesWhatCannotBe) {
  EXPECT_FALSE(synthetic_text_info(TextTask::kNextToken, 0, 50, 1).ok());
  EXPECT_FALSE(synthetic_text_info(TextTask::kNextToken, 16, 0, 1).ok());
  EXPECT_FALSE(synthetic_text_info(TextTask::kNextToken, 16, 50, 0).ok());
  EXPECT_FALSE(synthetic_text_info(TextTask::kNextToken, 16, kMaxClasses + 1, 1).ok());
  EXPECT_FALSE(
      synthetic_text_info(TextTask::kNextToken, kLongestSequence, 50, int64_t{1} << 40).ok());

  EXPECT_FALSE(synthetic_info(0, 28, 1, 10, 1).ok());
  EXPECT_FALSE(synthetic_info(28, 28, 1, 10, 0).ok());
  EXPECT_FALSE(synthetic_info(28, 28, 1, kMaxClasses + 1, 1).ok());
  EXPECT_FALSE(synthetic_info(1 << 20, 1 << 20, 3, 10, 1 << 20).ok());
  EXPECT_FALSE(synthetic_info(int64_t{1} << 40, int64_t{1} << 40, 3, 10, 1).ok());
}

}  // namespace
}  // namespace mantissa
