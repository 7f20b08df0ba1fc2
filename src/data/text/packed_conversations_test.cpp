#include "data/text/packed_conversations.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace mantissa {
namespace {

constexpr int64_t kSequence = 16;
constexpr Token kPadding = 99;

// Conversations of these lengths; tokens tell them apart, and every second one belongs to an answer.
std::vector<Token> conversations(const std::vector<int64_t>& lengths) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (int64_t k = 0; k < lengths[i]; ++k) {
      const auto number = static_cast<Token>(100 + 50 * i + static_cast<size_t>(k));
      tokens.push_back(number | (k == 0 ? kFirstMark : 0) | (k % 2 == 1 ? kAnswerMark : 0));
    }
  }
  return tokens;
}

struct Row {
  std::vector<int32_t> tokens, labels, starts;
};

Row row_of(const Examples& examples, uint32_t i) {
  Row row;
  for (auto* numbers : {&row.tokens, &row.labels, &row.starts}) numbers->resize(kSequence);
  std::byte* const places[] = {reinterpret_cast<std::byte*>(row.tokens.data()),
                               reinterpret_cast<std::byte*>(row.labels.data()),
                               reinterpret_cast<std::byte*>(row.starts.data())};
  examples.write(0, i, places);
  return row;
}

TEST(PackedConversations, EachLiesInOneSequenceWithItsStarts) {
  const auto tokens = conversations({6, 17, 5, 8, 4, 2});
  const PackedExamples packed = packed_answer_examples(tokens, kSequence, kPadding);
  ASSERT_EQ(packed.examples.count, 3);
  const Row whole = row_of(packed.examples, 0);  // the longest: 16 positions and a last token
  for (int32_t i = 0; i < kSequence; ++i) {
    EXPECT_EQ(whole.tokens[i], 150 + i);
    EXPECT_EQ(whole.labels[i], i % 2 == 0 ? 151 + i : kIgnoredLabel);
    EXPECT_EQ(whole.starts[i], 0);
  }
  // 7 + 5 + 4 positions fill the next one; 3 + 1 are left.
  const Row second = row_of(packed.examples, 1), third = row_of(packed.examples, 2);
  EXPECT_EQ(second.starts, (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 12, 12, 12, 12}));
  EXPECT_EQ(second.tokens[7], 100);
  EXPECT_EQ(second.tokens[12], 200);
  EXPECT_EQ(second.labels[6], 257);             // the last token of its conversation
  EXPECT_EQ(third.starts, (std::vector<int32_t>{0, 0, 0, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(third.tokens[4], kPadding);
  EXPECT_EQ(third.labels[4], kIgnoredLabel);
  EXPECT_EQ(packed.note,
            "packed: 6 conversations of 36 tokens in 3 sequences of 16; padding: 12 tokens in place "
            "of 60, 48 saved");
}

TEST(PackedConversations, AllLabelsAreThoseOfConversationsAlone) {
  std::vector<int64_t> lengths;
  for (uint32_t i = 0; i < 200; ++i) {
    lengths.push_back(2 + static_cast<int64_t>(random_bits(1, RandomStream::kShuffle, i, 0) % 16));
  }
  const auto tokens = conversations(lengths);
  const auto labels_of = [](const Examples& examples, bool has_starts) {
    std::map<std::pair<int32_t, int32_t>, int> counts;  // of token and label
    for (uint32_t i = 0; i < examples.count; ++i) {
      Row row;
      if (has_starts) {
        row = row_of(examples, i);
      } else {
        row.tokens.resize(kSequence), row.labels.resize(kSequence);
        std::byte* const places[] = {reinterpret_cast<std::byte*>(row.tokens.data()),
                                     reinterpret_cast<std::byte*>(row.labels.data())};
        examples.write(0, i, places);
      }
      for (size_t k = 0; k < kSequence; ++k) {
        if (row.labels[k] != kIgnoredLabel) ++counts[{row.tokens[k], row.labels[k]}];
      }
    }
    return counts;
  };
  const PackedExamples packed = packed_answer_examples(tokens, kSequence, kPadding);
  EXPECT_LT(packed.examples.count, 130);
  EXPECT_EQ(labels_of(packed.examples, true),
            labels_of(answer_examples(tokens, kSequence, kPadding), false));
}

}  // namespace
}  // namespace mantissa
