#include "data/text/whole_text.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace mantissa {
namespace {

constexpr int64_t kPlaces = 4;
constexpr Token kFill = 99;

std::array<std::vector<int32_t>, 2> written(const Examples& examples, uint32_t example) {
  std::array<std::vector<int32_t>, 2> both = {std::vector<int32_t>(kPlaces),
                                              std::vector<int32_t>(kPlaces)};
  const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(both[0].data()),
                                            reinterpret_cast<std::byte*>(both[1].data())};
  examples.write(0, example, places);
  return both;
}

TEST(WholeText, LabelsEachTokenButTheFirstOnce) {
  for (Token count = 2; count < 14; ++count) {
    std::vector<Token> tokens;
    for (Token token = 0; token < count; ++token) tokens.push_back(10 + token);
    const Examples examples = whole_text_examples(tokens, kPlaces, kFill);
    std::vector<Token> labelled;
    for (uint32_t i = 0; i < examples.count; ++i) {
      const auto [inputs, labels] = written(examples, i);
      EXPECT_GT(examples.length(i), 0);
      for (int64_t at = 0; at < kPlaces; ++at) {
        const bool is_there = at < examples.length(i);
        EXPECT_EQ(inputs[at], is_there ? tokens[i * kPlaces + at] : kFill);
        if (is_there) {
          labelled.push_back(labels[at]);
        } else {
          EXPECT_EQ(labels[at], kIgnoredLabel);
        }
      }
    }
    EXPECT_EQ(labelled, std::vector<Token>(tokens.begin() + 1, tokens.end()));
  }
}

}  // namespace
}  // namespace mantissa
