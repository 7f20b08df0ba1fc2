// Expected tokens are those of Hugging Face's tokenizers 0.23, with the same files.
#include "data/tokenizers/common/added_tokens.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "data/tokenizers/wordpiece.h"

namespace mantissa {
namespace {

using TokenNumbers = std::vector<int32_t>;

constexpr const char* kHead = R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
  "model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3,
    "[MASK]": 4, "the": 5, "cat": 6, "##s": 7, "a": 8, "b": 9, "##b": 10, "new": 11, "york": 12,
    "[": 13, "]": 14, "mask": 15, "c": 16, "+": 17, "é": 18, "e": 19, "co": 20, "##vid": 21}})";
constexpr const char* kAdded = R"(, "added_tokens": [
  {"id": 0, "content": "[PAD]", "special": true, "normalized": false},
  {"id": 1, "content": "[UNK]", "special": true, "normalized": false},
  {"id": 2, "content": "[CLS]", "special": true, "normalized": false},
  {"id": 3, "content": "[SEP]", "special": true, "normalized": false},
  {"id": 4, "content": "[MASK]", "special": true, "normalized": false},
  {"id": 22, "content": "<user>", "special": true, "normalized": false, "lstrip": true},
  {"id": 23, "content": "Covid", "normalized": true},
  {"id": 24, "content": "C++", "normalized": false, "single_word": true},
  {"id": 25, "content": "New York", "normalized": true, "single_word": true, "rstrip": true},
  {"id": 26, "content": "É", "normalized": true}])";

class AddedTokens : public ::testing::Test {
 protected:
  Result<WordPiece> read(const std::string& text) {
    put_file(folder_ / "tokenizer.json", text);
    return read_wordpiece(folder_.path());
  }
  void put(const std::string& name, const std::string& text) { put_file(folder_ / name, text); }
  const std::filesystem::path& folder() const { return folder_.path(); }
  // The error, which names the file.
  std::string refusal(const std::string& text) {
    const auto found = read(text);
    return found.ok() ? "" : found.error().message;
  }
  void expect_tokens(const WordPiece& tokenizer) {
    struct Case {
      const char* text;
      TokenNumbers tokens;
    };
    const Case cases[] = {{"covid the COVID cats", {23, 1, 26, 23, 6, 7}},
                          {"Covids", {23, 1}},
                          {"C++ c++ aC++ C++b C++", {24, 16, 17, 17, 1, 17, 17, 16, 17, 17, 9, 24}},
                          {"a <user> b <user><user> cats", {8, 22, 9, 22, 22, 6, 7}},
                          {"new  york", {1, 26, 1, 12}},
                          {"New York  the new york\tcat new yorks", {25, 1, 26, 25, 6, 11, 12, 7}},
                          {"[MASK] [mask] the[SEP]", {4, 13, 15, 14, 1, 26, 3}},
                          {"É é e\u0301 E the", {26, 26, 26, 26, 1, 26}},
                          {"a\u0663 C++\u0663 C++_ C++-", {1, 16, 17, 17, 1, 16, 17, 17, 1, 24, 1}},
                          {"\u3000<user>\u3000a", {22, 8}}};
    for (const Case& each : cases) {
      EXPECT_EQ(*tokenizer.encode(each.text), each.tokens) << each.text;
    }
  }

 private:
  TestFolder folder_;
};

TEST_F(AddedTokens, AreThoseOfTokenizers) {
  const auto tokenizer = read(std::string(kHead) + kAdded + "}");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->pieces().size(), 27U);
  EXPECT_TRUE(tokenizer->is_special(22));
  EXPECT_FALSE(tokenizer->is_special(23));
  expect_tokens(*tokenizer);
  const auto again = parse_wordpiece(to_json(*tokenizer));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->options(), tokenizer->options());
  expect_tokens(*again);
}

// A file with a list has those alone; one without it the special tokens, as vocab.txt.
TEST_F(AddedTokens, OfAListAloneAreFound) {
  EXPECT_EQ(*read(std::string(kHead) + R"(, "added_tokens": []})")->encode("[MASK]"),
            (TokenNumbers{13, 15, 14}));
  EXPECT_EQ(*read(std::string(kHead) + "}")->encode("[MASK]"), (TokenNumbers{4}));
}

TEST_F(AddedTokens, OfVocabulariesAreThoseOfTheFilesBeside) {
  put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n");
  put("added_tokens.json", R"({"dog": 7})");
  put("tokenizer_config.json", R"({"model_max_length": 16, "added_tokens_decoder": {
      "8": {"content": "<user>", "special": true, "normalized": false, "lstrip": true}}})");
  put("special_tokens_map.json", R"({"cls_token": "[CLS]", "mask_token": {"content": "[MASK]"}})");
  const auto tokenizer = read_wordpiece(folder());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(*tokenizer->encode("the Dog <user>[MASK]cat"), (TokenNumbers{5, 7, 8, 4, 6}));
  EXPECT_EQ(tokenizer->options().most_tokens, 16);
  put("tokenizer_config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  EXPECT_FALSE(read_wordpiece(folder()).ok());
  put("tokenizer_config.json", R"({"additional_special_tokens": ["<none>"]})");
  const auto without = read_wordpiece(folder());
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message.find("'<none>' is not in the vocabulary"), std::string::npos);
}

TEST_F(AddedTokens, WhatIsNotDoneIsNamed) {
  const std::string file = std::string(kHead) + kAdded + "}";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = file;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(text.replace(at, from.size(), to));
  };
  struct Case {
    const char *from, *to, *named;
  };
  const Case cases[] = {
      {"\"BertNormalizer\"", "\"Lowercase\"", "'Lowercase'"},
      {"\"lowercase\": true", "\"clean_text\": false", "clean_text"},
      {"\"BertPreTokenizer\"", "\"Whitespace\"", "'Whitespace'"},
      {"{\"type\": \"BertPreTokenizer\"}", "null", "pre-tokenizer is 'none'"},
      {"\"BertProcessing\"", "\"RobertaProcessing\"", "'RobertaProcessing'"},
      {"[\"[SEP]\", 3]", "[\"[SEP]\", 4]", "another number"},
      {"\"WordPiece\"", "\"Unigram\"", "'Unigram'"},
      {"\"id\": 23", "\"id\": 33", "'Covid' has the number 33"},
      {"\"id\": 22", "\"id\": 8", "'<user>' has the number 8"},
      {"\"É\", \"normalized\"", "\"C++\", \"normalized\"", "'C++' is there twice"},
      {"\"É\"", "\"\u200d\"", "nothing is left of the added token"},
      {"{\"normalizer\"",
       "{\"truncation\": {\"direction\": \"Left\", \"max_length\": 9}, \"normalizer\"",
       "truncation"},
      {"{\"normalizer\"", "{\"padding\": {\"direction\": \"Left\"}, \"normalizer\"", "padding"},
      {"{\"normalizer\"", "{\"decoder\": {\"type\": \"BPEDecoder\"}, \"normalizer\"",
       "'BPEDecoder'"}};
  for (const Case& each : cases) {
    const std::string said = with(each.from, each.to);
    EXPECT_NE(said.find(each.named), std::string::npos) << each.to << ": " << said;
    EXPECT_NE(said.find("tokenizer.json"), std::string::npos) << said;
  }
  EXPECT_EQ(refusal(file), "");
  put("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(refusal(file).find("do_lower_case of tokenizer_config.json"), std::string::npos);
  put("tokenizer_config.json", R"({"added_tokens_decoder": {"27": {"content": "more"}}})");
  EXPECT_NE(refusal(file).find("added_tokens lack 'more'"), std::string::npos);
}

TEST_F(AddedTokens, TemplatesNameTheTokensAround) {
  std::string text = std::string(kHead) + kAdded + "}";
  const std::string old = R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})";
  text.replace(text.find(old), old.size(),
               R"({"type": "TemplateProcessing", "single": [
                   {"SpecialToken": {"id": "<user>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [],
                   "special_tokens": {"<user>": {"id": "<user>", "ids": [22]},
                                      "[SEP]": {"id": "[SEP]", "ids": [3]}}})");
  const auto tokenizer = read(text);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->first(), 22);
  EXPECT_EQ(tokenizer->last(), 3);
}

}  // namespace
}  // namespace mantissa
