// Expected tokens are those of Hugging Face's tokenizers 0.22, with the same vocabulary.
#include "data/tokenizers/wordpiece.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace mantissa {
namespace {

using TokenNumbers = std::vector<int32_t>;

const std::vector<std::string>& pieces() {
  static const std::vector<std::string> list = {
      "[PAD]",    "[UNK]",  "[CLS]",  "[SEP]",    "[MASK]", "!",      "#",       "'",      "+",
      ",",        "=",      "[",      "]",        "a",      "b",      "c",       "n",      "s",
      "t",        "x",      "z",      "\u00ab",   "\u00bb", "\u03c3", "\u2014",  "\u201c", "\u201d",
      "\u2026",   "\u4eac", "\u5e74", "\u6771",   "is",     "##s",    "no",      "world",  "##y",
      "don",      "##l",    "end",    "##p",      "##4",    "##x",    "##ble",   "##tor",  "tokyo",
      "##bs",     "und",    "##fa",   "mask",     "hello",  "##fe",   "facade",  "##ws",   "ap",
      "istanbul", "##bles", "una",    "##\u03b1", "naive",  "202",    "ara",     "ol",     "##xx",
      "##ffa",    "af",     "tab",    "xx",       "##pl",   "ae",     "##\u03c3"};
  return list;
}

WordPiece tokenizer(const WordPieceOptions& options = {}) {
  auto made = WordPiece::create(pieces(), options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(*made);
}

constexpr int kUnknown = 1, kX = 66, kXx = 62;

TEST(WordPiece, HasTheTokensOfTokenizers) {
  struct Case {
    const char* text;
    TokenNumbers lower, cased;  // cased: accents stay, Chinese characters are not apart
  };
  const Case cases[] = {
      {"Hello, World!", {49, 9, 34, 5}, {1, 9, 1, 5}},
      {"\u00c4pfel und \u00d6l \u2014 na\u00efve fa\u00e7ade",
       {53, 50, 37, 46, 61, 24, 58, 51},
       {1, 46, 1, 24, 1, 1}},
      {"\u6771\u4eac is T\u014dky\u014d", {30, 28, 31, 44}, {1, 31, 1}},
      {"[MASK] is no [SEP]arator", {4, 31, 33, 3, 60, 43}, {4, 31, 33, 3, 60, 43}},
      {"unaffable affables", {56, 63, 42, 64, 47, 55}, {56, 63, 42, 64, 47, 55}},
      {"\u0130stanbul \u03a3\u0391\u03a3", {54, 23, 57, 69}, {1, 1}},
      {"tab\tzwsp\u200bls\u2028nbsp\u00a0end",
       {65, 20, 52, 67, 32, 16, 45, 39, 38},
       {65, 20, 52, 67, 32, 16, 45, 39, 38}},
      {"don't a+b=c", {36, 7, 18, 13, 8, 14, 10, 15}, {36, 7, 18, 13, 8, 14, 10, 15}},
      {"a\u0301e\u0301 \u1e69", {68, 17}, {1, 1}},
      {"\ufeffx\177y \ufffd", {19, 35}, {19, 35}},
      {"\u0663 2024\u5e74", {1, 59, 40, 29}, {1, 1}},
      {"\u00aba\u00bb \u201cb\u201d \u2026",
       {21, 13, 22, 25, 14, 26, 27},
       {21, 13, 22, 25, 14, 26, 27}},
      {"##a # #a", {6, 6, 13, 6, 6, 13}, {6, 6, 13, 6, 6, 13}},
      {"", {}, {}},
      {"  \r ", {}, {}},
      {"a[mask]b", {13, 11, 48, 12, 14}, {13, 11, 48, 12, 14}},
  };
  const WordPiece lower = tokenizer();
  const WordPiece cased =
      tokenizer({.lower_case = false, .strip_accents = false, .split_chinese = false});
  for (const Case& each : cases) {
    EXPECT_EQ(*lower.encode(each.text), each.lower) << each.text;
    EXPECT_EQ(*cased.encode(each.text), each.cased) << each.text;
  }
}

TEST(WordPiece, WordsOfMoreThanSoManyCharactersAreUnknown) {
  TokenNumbers longest(50, kXx);
  longest[0] = kX;
  EXPECT_EQ(*tokenizer().encode(std::string(100, 'x')), longest);
  EXPECT_EQ(*tokenizer().encode(std::string(101, 'x')), TokenNumbers{kUnknown});
  EXPECT_EQ(*tokenizer().encode(std::string(1 << 20, 'x')), TokenNumbers{kUnknown});
}

TEST(WordPiece, RefusesWhatIsNotUtf8AndSaysWhere) {
  for (const char* text : {"a\nb\xff", "a\nb\xc3", "a\nb\xed\xa0\x80"}) {
    const auto tokens = tokenizer().encode(text);
    ASSERT_FALSE(tokens.ok());
    EXPECT_EQ(tokens.error().message, "line 2, byte 3: is not UTF-8");
  }
}

std::string why_not(std::vector<std::string> list) {
  const auto made = WordPiece::create(std::move(list));
  return made.ok() ? "" : made.error().message;
}

TEST(WordPiece, RefusesVocabulariesThatAreNone) {
  EXPECT_NE(why_not({}), "");
  EXPECT_NE(why_not({"[UNK]", "[CLS]", "[SEP]", "[PAD]"}).find("'[MASK]'"), std::string::npos);
  const std::vector<std::string> special = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
  const auto with = [&](std::string piece) {
    std::vector<std::string> list = special;
    list.push_back(std::move(piece));
    return why_not(std::move(list));
  };
  EXPECT_EQ(with("a"), "");
  EXPECT_NE(with("[CLS]").find("twice"), std::string::npos);
  EXPECT_NE(with("").find("empty"), std::string::npos);
  EXPECT_NE(with("\xff").find("UTF-8"), std::string::npos);
  EXPECT_NE(with(std::string(kMostPieceBytes + 1, 'a')).find("longer"), std::string::npos);
}

TEST(WordPiece, IsReadBackFromItsJson) {
  const WordPiece one = tokenizer({.lower_case = false, .longest_word = 7});
  const auto two = parse_wordpiece(to_json(one));
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->pieces(), one.pieces());
  EXPECT_EQ(two->options(), one.options());
  EXPECT_FALSE(parse_wordpiece("{}").ok());
  EXPECT_FALSE(parse_wordpiece("").ok());
  EXPECT_FALSE(parse_wordpiece(R"({"pieces": 3})").ok());
}

class WordPieceFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) {
    put_file(folder_.path() / name, text);
    return folder_.path() / name;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::string why_not(const std::filesystem::path& path) {
    const auto read = read_wordpiece(path);
    return read.ok() ? "" : read.error().message;
  }

 private:
  TestFolder folder_;
};

TEST_F(WordPieceFile, IsAVocabularyWithOptionsBesideOrATokenizer) {
  write("vocab.txt", "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nA\n");
  write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": null})");
  EXPECT_EQ(*read_wordpiece(folder())->encode("A a"), (TokenNumbers{5, 1}));
  write("tokenizer_config.json", "{}");
  write("tokenizer.json",
        R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
            "model": {"type": "WordPiece", "max_input_chars_per_word": 3,
                      "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4,
                                "a": 6, "##a": 5}}})");
  EXPECT_EQ(*read_wordpiece(folder())->encode("AA aaaa"), (TokenNumbers{6, 5, 1}));
}

TEST_F(WordPieceFile, ErrorsNameTheFileAndTheReason) {
  EXPECT_NE(why_not(folder()).find("vocab.txt"), std::string::npos);
  EXPECT_NE(why_not(write("a.json", "{")).find("a.json"), std::string::npos);
  EXPECT_NE(why_not(write("b.json", R"({"model": {"type": "BPE"}, "normalizer": null})"))
                .find("WordPiece is the one"),
            std::string::npos);
  const char* kTwice =
      R"({"normalizer": {"type": "BertNormalizer"},
          "model": {"type": "WordPiece", "vocab": {"a": 0, "b": 0}}})";
  EXPECT_NE(why_not(write("c.json", kTwice)).find("each once"), std::string::npos);
  EXPECT_NE(why_not(write("d.txt", "")).find("d.txt"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
