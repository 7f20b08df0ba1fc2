#include "data/tokenizers/byte_bpe/byte_bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "data/tokenizers/byte_bpe/test_byte_bpe.h"

namespace mantissa {
namespace {

using Numbers = std::vector<int32_t>;

ByteBpe tokenizer(const ByteBpeOptions& options = test_options()) {
  auto made = ByteBpe::create(test_tokens(), test_merges(), options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(*made);
}

Numbers tokens_of(const ByteBpe& bpe, std::string_view text,
                  ByteBpe::Special special = ByteBpe::Special::kAreText) {
  const auto tokens = bpe.encode(text, special);
  EXPECT_TRUE(tokens.ok()) << (tokens.ok() ? "" : tokens.error().message);
  return tokens.ok() ? *tokens : Numbers();
}

std::string refusal(std::vector<std::string> tokens, const std::vector<ByteBpe::Merge>& merges,
                    const ByteBpeOptions& options) {
  const auto made = ByteBpe::create(std::move(tokens), merges, options);
  return made.ok() ? "accepted" : made.error().message;
}

TEST(ByteAlphabet, GoesThereAndBack) {
  std::string all, characters;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    characters += character_of_byte(static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(bytes_of_alphabet(characters), all);
  EXPECT_EQ(character_of_byte(' '), "\u0120");
  EXPECT_EQ(character_of_byte('\n'), "\u010a");
  EXPECT_EQ(character_of_byte(0xAD), "\u0143");
  EXPECT_EQ(character_of_byte('a'), "a");
  for (const char* other : {" ", "\n", "\u0144", "\u4eac", "\xff"}) {
    EXPECT_FALSE(bytes_of_alphabet(other).has_value()) << other;
  }
}

TEST(ByteBpe, MergesTheLowestRankFirstAndTheLeftmost) {
  const ByteBpe bpe = tokenizer();
  EXPECT_EQ(tokens_of(bpe, "abc"), (Numbers{258}));  // bc, then a and bc
  EXPECT_EQ(tokens_of(bpe, "ab"), (Numbers{256}));
  EXPECT_EQ(tokens_of(bpe, "aaa"), (Numbers{259, 'a'}));  // the left two
  EXPECT_EQ(tokens_of(bpe, "aaaa"), (Numbers{259, 259}));
  EXPECT_EQ(tokens_of(bpe, "aaabc"), (Numbers{259, 258}));  // a and bc before a and a
  EXPECT_EQ(tokens_of(bpe, "x a"), (Numbers{'x', 260}));
  EXPECT_EQ(tokens_of(bpe, "whole"), (Numbers{'w', 'h', 'o', 'l', 'e'}));  // no merges make it
  EXPECT_EQ(tokens_of(bpe, ""), Numbers{});
  EXPECT_EQ(tokens_of(bpe, "\u00e9"), (Numbers{0xc3, 0xa9}));
}

TEST(ByteBpe, IgnoresMergesIfItIsTold) {
  ByteBpeOptions options = test_options();
  options.ignores_merges = true;
  const ByteBpe bpe = tokenizer(options);
  EXPECT_EQ(tokens_of(bpe, "whole"), (Numbers{261}));
  EXPECT_EQ(tokens_of(bpe, "wholes"), (Numbers{'w', 'h', 'o', 'l', 'e', 's'}));
}

TEST(ByteBpe, SpecialTokensAreTokensInTemplatesOnly) {
  const ByteBpe bpe = tokenizer();
  const std::string text = "a<|user|>b<tool>";
  EXPECT_EQ(tokens_of(bpe, text, ByteBpe::Special::kAreTokens), (Numbers{'a', 263, 'b', 262}));
  const Numbers as_text = tokens_of(bpe, text);
  EXPECT_EQ(as_text.size(), 11u);  // the user's own is a token in any text
  EXPECT_EQ(as_text.back(), 262);
  EXPECT_EQ(bpe.decode(as_text, false), text);
  EXPECT_EQ(bpe.decode(Numbers{'a', 263, 4, 262}, true), "a<|user|><|end|><tool>");
  EXPECT_EQ(bpe.decode(Numbers{'a', 263, 4, 262}, false), "a<tool>");
  EXPECT_TRUE(bpe.is_special(4));
  EXPECT_FALSE(bpe.is_special(262));
}

TEST(ByteBpe, BytesWithoutATokenAreRefusedWithTheirPlace) {
  const ByteBpe bpe = tokenizer();
  EXPECT_EQ(bpe.bytes_without_token(), "\x04");
  const auto missing = bpe.encode("one\ntwo\x04", ByteBpe::Special::kAreText);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message,
            "has the byte 0x04, for which the tokenizer has no token: line 2, byte 7");
  const auto damaged = bpe.encode("a\xff", ByteBpe::Special::kAreText);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().message, "is not UTF-8: line 1, byte 1");
}

TEST(ByteBpe, ComposesTextsIfItIsTold) {
  ByteBpeOptions options = test_options();
  options.composes = true;
  options.added.push_back({.text = "e\u0301x", .number = 264, .normalised = true});
  std::vector<std::string> tokens = test_tokens();
  tokens.push_back("e\u0301x");
  const auto bpe = ByteBpe::create(tokens, test_merges(), options);
  ASSERT_TRUE(bpe.ok()) << bpe.error().message;
  EXPECT_EQ(tokens_of(*bpe, "e\u0301"), (Numbers{0xc3, 0xa9}));
  EXPECT_EQ(tokens_of(tokenizer(), "e\u0301"), (Numbers{'e', 0xcc, 0x81}));
  EXPECT_EQ(tokens_of(*bpe, "\u00e9x"), (Numbers{264}));  // found when normalised
}

TEST(ByteBpe, LongPiecesTakeNoLongTime) {
  const ByteBpe bpe = tokenizer();
  const std::string text(size_t{1} << 20, 'a');
  EXPECT_EQ(tokens_of(bpe, text).size(), text.size() / 2);
}

TEST(ByteBpe, DamagedVocabulariesAreRefused) {
  const ByteBpeOptions none;
  EXPECT_NE(refusal({}, {}, none).find("has 0 tokens"), std::string::npos);
  EXPECT_NE(refusal({"a", "a"}, {}, none).find("\"a\" twice"), std::string::npos);
  EXPECT_NE(refusal({"a", "b"}, {{"a", "b"}}, none).find("merge 0 has \"ab\", which is no token"),
            std::string::npos);
  ByteBpeOptions other;
  other.added = {{.text = "x", .number = 0}};
  EXPECT_NE(refusal({"a"}, {}, other).find("another token's"), std::string::npos);
  other.added = {{.text = "x", .number = 1 << 30}};
  EXPECT_NE(refusal({"a"}, {}, other).find("another token's"), std::string::npos);
  other = {};
  other.end = 1;
  EXPECT_NE(refusal({"a"}, {}, other).find("names the token 1"), std::string::npos);
}

RC_GTEST_PROP(ByteBpe, DecodesToTheText, ()) {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "a", "b", "c", "abc", " ", "\n", "<tool>", "<|user|>", "\u00e9", "\U0001f642", "7"));
  std::string text;
  for (const std::string& part : parts) text += part;
  const ByteBpe bpe = tokenizer();
  for (const auto special : {ByteBpe::Special::kAreText, ByteBpe::Special::kAreTokens}) {
    RC_ASSERT(bpe.decode(tokens_of(bpe, text, special), true) == text);
  }
}

}  // namespace
}  // namespace mantissa
