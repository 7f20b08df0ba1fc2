#include "data/tokenizers/wordpiece_learner.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "data/text/text.h"
#include "data/tokenizers/bert_words.h"
#include "data/tokenizers/vocabulary.h"

namespace mantissa {
namespace {

using Pieces = std::vector<std::string>;

constexpr int64_t kSpecials = 5;

Pieces learned(std::string_view text, int64_t size) {
  const auto tokenizer = learn_wordpiece(text, size);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return tokenizer.ok() ? tokenizer->pieces() : Pieces();
}

std::string why_not(std::string_view text, int64_t size) {
  const auto tokenizer = learn_wordpiece(text, size);
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

// The most pieces that a text gives, as the error says.
int64_t most_pieces(std::string_view text) {
  const std::string message = why_not(text, kMostCharacters);
  const size_t at = message.find("gives ");
  EXPECT_NE(at, std::string::npos) << message;
  return std::stoll(message.substr(at + 6));
}

// Words of letters, some of them with accents, capitals and punctuation, from a small alphabet so
// that pairs repeat.
std::string random_text(uint32_t seed, int words) {
  const Pieces letters = {"a", "b", "c", "d", "E", "F", "\u00c4", "\u00e9", "\u6771", "-", "1"};
  std::mt19937 draw(seed);
  std::string text;
  for (int i = 0; i < words; ++i) {
    for (uint32_t left = 1 + draw() % 6; left > 0; --left) text += letters[draw() % letters.size()];
    text += draw() % 8 == 0 ? "\n" : " ";
  }
  return text;
}

// Pairs: u g 20 times, then u n 16, h ug 15, p un 12, p ug and hug s 5, b un 4.
TEST(WordPieceLearner, MergesTheMostFrequentPair) {
  std::string text;
  const std::vector<std::pair<std::string, int>> counts = {
      {"hug ", 10}, {"pug ", 5}, {"pun ", 12}, {"bun ", 4}, {"hugs ", 5}};
  for (const auto& [word, count] : counts) {
    for (int i = 0; i < count; ++i) text += word;
  }
  const Pieces characters = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b",   "g",   "h",
                             "n",     "p",     "s",     "u",     "##g",    "##n", "##s", "##u"};
  EXPECT_EQ(learned(text, 16), characters);
  Pieces more = characters;
  more.insert(more.end(), {"##ug", "##un", "hug", "pun"});
  EXPECT_EQ(learned(text, 20), more);
  more.insert(more.end(), {"pug", "hugs", "bun"});
  EXPECT_EQ(learned(text, 23), more) << "of pairs as frequent, the one of lower numbers";
  EXPECT_EQ(most_pieces(text), 23);
}

TEST(WordPieceLearner, PairsMayOverlap) {
  // a ##a ##a ##a ##a, then a ##aa ##aa, of whose pairs the first has the lower numbers.
  EXPECT_EQ(learned("aaaaa aaaaa", 9),
            (Pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "##aa", "aaa"}));
}

TEST(WordPieceLearner, TheOrderOfWordsChangesNothing) {
  EXPECT_EQ(learned("one two three two", 20), learned("two\n\nthree Two ONE", 20));
}

TEST(WordPieceLearner, ALearnedTextHasNoUnknownWordAndComesBackNormalised) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const std::string text = random_text(seed, 200);
    const int64_t most = most_pieces(text);
    for (const int64_t size : {most, most / 2, int64_t{40}}) {
      auto tokenizer = learn_wordpiece(text, size);
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
      ASSERT_EQ(std::ssize(tokenizer->pieces()), size);
      std::string words;
      for_bert_words(text, {}, [&](std::string_view word) { words += " " + std::string(word); });
      const auto vocabulary = Vocabulary::of(std::move(*tokenizer));
      const auto tokens = vocabulary->encode(text);
      ASSERT_TRUE(tokens.ok());
      for (const Token token : *tokens) EXPECT_FALSE(vocabulary->is_special(token));
      EXPECT_EQ(vocabulary->decode(*tokens), words);
      EXPECT_EQ(vocabulary->characters(*tokens) > std::ssize(*tokens), true);
    }
  }
}

TEST(WordPieceLearner, ErrorsSayWhatIsPossible) {
  EXPECT_NE(why_not("", 100).find("no word"), std::string::npos);
  EXPECT_NE(why_not(" \n\t", 100).find("no word"), std::string::npos);
  EXPECT_NE(why_not(std::string(101, 'x'), 100).find("no word"), std::string::npos);
  EXPECT_NE(why_not("ab", kSpecials + 2).find("needs 8 pieces"), std::string::npos);
  EXPECT_NE(why_not("ab", 10).find("choose --vocabulary 9 or less"), std::string::npos);
  EXPECT_EQ(learned("ab", 9).back(), "ab");
}

TEST(WordPieceLearner, LongWordsAreUnknown) {
  const std::string text = "word " + std::string(101, 'x');
  const auto tokenizer = learn_wordpiece(text, 12);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->encode(text)->back(), tokenizer->unknown());
}

TEST(WordPieceLearner, PartsOfATextEndBehindWhiteSpace) {
  constexpr size_t kMost = size_t{1} << 16;
  std::string words, whole;
  while (words.size() < 3 * kMost) words += "some words\n";
  while (whole.size() < 3 * kMost) whole += "\u20ac";
  for (const std::string& text : {words, whole}) {
    std::string_view rest = text;
    std::string again;
    while (!rest.empty()) {
      const std::string_view part = next_text_part(rest);
      ASSERT_FALSE(part.empty());
      EXPECT_LE(part.size(), kMost);
      EXPECT_EQ(first_not_utf8(part), part.size());
      if (!rest.empty() && &text == &words) {
        EXPECT_TRUE(part.ends_with(' ') || part.ends_with('\n'));
      }
      again += part;
    }
    EXPECT_EQ(again, text);
  }
}

TEST(WordPieceVocabulary, MasksAreItsOwnAndRandomTokensAreText) {
  const std::string text = random_text(1, 400);
  auto tokenizer = learn_wordpiece(text, 60);
  ASSERT_TRUE(tokenizer.ok());
  const auto vocabulary = Vocabulary::of(std::move(*tokenizer));
  EXPECT_EQ(vocabulary->tokens(), Tokens::kWordPieces);
  ASSERT_EQ(vocabulary->mask(), Token{4});
  const auto tokens = vocabulary->encode(text);
  constexpr int64_t kSequence = 16;
  const Examples examples = masked_examples(*tokens, kSequence, *vocabulary, 1);
  std::vector<int32_t> inputs(kSequence), segments(kSequence), labels(kSequence);
  int32_t length = 0;
  int masks = 0, random = 0;
  for (int64_t i = 0; i < examples.count; ++i) {
    std::byte* const places[] = {
        reinterpret_cast<std::byte*>(inputs.data()), reinterpret_cast<std::byte*>(segments.data()),
        reinterpret_cast<std::byte*>(&length), reinterpret_cast<std::byte*>(labels.data())};
    examples.write(0, static_cast<uint32_t>(i), places);
    for (int64_t k = 0; k < kSequence; ++k) {
      const Token was = (*tokens)[i * kSequence + k];
      EXPECT_TRUE(labels[k] == -1 || labels[k] == was);
      if (inputs[k] == was) continue;
      EXPECT_EQ(labels[k], was);
      EXPECT_TRUE(inputs[k] == 4 || !vocabulary->is_special(static_cast<Token>(inputs[k])));
      ++(inputs[k] == 4 ? masks : random);
    }
  }
  EXPECT_GT(masks, 4 * random);
  EXPECT_GT(random, 0);
}

}  // namespace
}  // namespace mantissa
