// Tokens of byte-level BPE as vocabularies of language models.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/byte_bpe/test_byte_bpe.h"
#include "data/tokenizers/vocabulary.h"

namespace mantissa {
namespace {

TEST(ByteBpeVocabulary, AreVocabulariesOfLanguageModels) {
  const auto tokenizer = ByteBpe::create(test_tokens(), test_merges(), test_options());
  ASSERT_TRUE(tokenizer.ok());
  const auto vocabulary = vocabulary_of_entry(to_json(*tokenizer, ChatTemplate()));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->tokens(), Tokens::kByteBpe);
  EXPECT_EQ(vocabulary->names(), tokenizer->tokens());
  EXPECT_EQ(vocabulary->chat(), ChatTemplate());
  EXPECT_FALSE(vocabulary->mask().has_value());
  EXPECT_EQ(vocabulary->line_feed(), '\n');
  EXPECT_TRUE(vocabulary->is_special(4));
  const auto tokens = vocabulary->encode("abc\u00e9<|end|>");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)[0], 258);
  EXPECT_EQ(vocabulary->decode(*tokens), "abc\u00e9<|end|>");  // as text
  EXPECT_EQ(vocabulary->characters(*tokens), 11);
  EXPECT_NE(vocabulary->encode("a\x04").error().message.find("0x04"), std::string::npos);
  EXPECT_FALSE(vocabulary->encode(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(vocabulary_of("text", Tokens::kByteBpe).ok());
}

// Numbers of tokens have more than 16 bits.
TEST(ByteBpeVocabulary, HasMoreThan65536Tokens) {
  std::vector<std::string> tokens = test_tokens();
  const size_t at = std::find(tokens.begin(), tokens.end(), "ab") - tokens.begin();
  tokens[at] = "other";
  for (int i = 0; i < 70000; ++i) tokens.push_back("filler " + std::to_string(i));
  tokens.push_back("ab");
  const auto last = static_cast<Token>(tokens.size() - 1);
  auto tokenizer = ByteBpe::create(std::move(tokens), {{"a", "b"}}, test_options());
  ASSERT_TRUE(tokenizer.ok());
  const auto vocabulary = Vocabulary::of(std::move(*tokenizer), std::nullopt);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(*vocabulary->encode("ab"), std::vector<Token>{last});
  EXPECT_EQ(vocabulary->decode(std::vector<Token>{last}), "ab");
}

TEST(ByteBpeVocabulary, KnowsTheTokensThatEndATextOrATurn) {
  std::vector<std::string> tokens = test_tokens();
  ByteBpeOptions options = test_options();
  options.end = 4;
  options.added.push_back({.text = "<|im_end|>", .number = 264, .special = true});
  tokens.push_back("<|im_end|>");
  const auto ends = [&](const std::optional<ChatTemplate>& chat) {
    auto tokenizer = ByteBpe::create(tokens, test_merges(), options);
    return Vocabulary::of(std::move(*tokenizer), chat)->ends();
  };
  EXPECT_EQ(ends(std::nullopt), std::vector<Token>{4});
  EXPECT_EQ(ends(ChatTemplate()), (std::vector<Token>{4, 264}));
  options.end = 264;
  EXPECT_EQ(ends(ChatTemplate()), std::vector<Token>{264});
  EXPECT_TRUE(Vocabulary({"a", "b"}).ends().empty());
}

TEST(ByteBpeVocabulary, IsNoWordPiece) {
  const auto tokenizer = ByteBpe::create(test_tokens(), test_merges(), test_options());
  ASSERT_TRUE(tokenizer.ok());
  const auto wordpiece = parse_wordpiece(to_json(*tokenizer, std::nullopt));
  ASSERT_FALSE(wordpiece.ok());
  EXPECT_NE(wordpiece.error().message.find("byte_bpe, and no WordPiece"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
