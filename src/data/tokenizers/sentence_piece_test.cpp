#include "data/tokenizers/sentence_piece.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mantissa {
namespace {

const std::string& example() {
  static const std::string text = [] {
    std::string all;
    for (int i = 0; i < 60; ++i) {
      all += "The lower the newer, the wider the lowest:\tété " + std::to_string(i) + "\n";
      if (i % 7 == 0) all += "\n  indented by  two\n";
    }
    return all;
  }();
  return text;
}

std::string decoded(const std::vector<std::string>& pieces, const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += piece_text(pieces[static_cast<size_t>(number)]);
  return text;
}

TEST(SentencePiece, TextsComeBack) {
  const auto pieces = learn_pieces(example(), 120);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  EXPECT_LE(std::ssize(*pieces), 120);
  EXPECT_EQ(pieces->front(), kUnknownPiece);
  const std::string others[] = {example(), "", "\n", "\n\nthe\n", "   ", "no sewn width\ttown", "é"};
  for (const std::string& text : others) {
    const auto numbers = encode_pieces(*pieces, text);
    ASSERT_TRUE(numbers.ok());
    EXPECT_EQ(decoded(*pieces, *numbers), text);
    EXPECT_EQ(std::count(numbers->begin(), numbers->end(), 0), 0) << text;
  }
}

TEST(SentencePiece, MergesWhatIsFrequent) {
  const auto pieces = learn_pieces(example(), 120);
  ASSERT_TRUE(pieces.ok());
  const auto numbers = encode_pieces(*pieces, "the lower");
  ASSERT_TRUE(numbers.ok());
  EXPECT_LE(numbers->size(), 4u);
  EXPECT_EQ(*learn_pieces(example(), 120), *pieces) << "the same text, the same pieces";
}

TEST(SentencePiece, LongLinesAreLearnedFrom) {
  std::string line = "é";
  while (line.size() < 250'000) line += "wxyz éé";
  const auto pieces = learn_pieces(line, 64);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  EXPECT_NE(std::find(pieces->begin(), pieces->end(), "wxyz"), pieces->end());
  EXPECT_EQ(decoded(*pieces, *encode_pieces(*pieces, line)), line);
}

TEST(SentencePiece, CharactersNeedRoom) {
  const auto pieces = learn_pieces(example(), 20);
  ASSERT_FALSE(pieces.ok());
  EXPECT_NE(pieces.error().message.find("larger --vocabulary"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
