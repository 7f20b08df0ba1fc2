// Expected pieces are those of Hugging Face's tokenizers 0.23 (pre_tokenize_str).
#include "data/tokenizers/byte_bpe/pre_tokens.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <string>

namespace mantissa {
namespace {

constexpr std::array kKinds = {PreTokenizer::kGpt2, PreTokenizer::kSmolLm, PreTokenizer::kLlama3,
                               PreTokenizer::kQwen2};

std::string divided(std::string_view text, PreTokenizer kind) {
  std::string all;
  for_pre_tokens(text, kind, [&](std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    all += (all.empty() ? "" : "|") + std::string(piece);
  });
  return all;
}

TEST(PreTokens, AreThoseOfTokenizers) {
  struct Case {
    const char* text;
    std::array<const char*, kKinds.size()> pieces;
  };
  const Case cases[] = {
      {"Hello, world!  It's 2024.",
       {"Hello|,| world|!| | It|'s| 2024|.", "Hello|,| world|!| | It|'s| |2|0|2|4|.",
        "Hello|,| world|!| | It|'s| |202|4|.", "Hello|,| world|!| | It|'s| |2|0|2|4|."}},
      {"a  3", {"a| | 3", "a|  |3", "a| | |3", "a| | |3"}},
      {"I'LL 'see' 'Ss  \n\n x",
       {"I|'|LL| '|see|'| '|Ss|  \n\n| x", "I|'|LL| '|see|'| '|Ss|  \n\n| x",
        "I|'LL| '|see|'| '|Ss|  \n\n| x", "I|'LL| '|see|'| '|Ss|  \n\n| x"}},
      {"if (x):\n    return -1\r\n\t\ty",
       {"if| (|x|):|\n   | return| -|1|\r\n\t|\t|y", "if| (|x|):|\n   | return| -|1|\r\n\t|\t|y",
        "if| (|x|):\n|   | return| -|1|\r\n|\t|\ty", "if| (|x|):\n|   | return| -|1|\r\n|\t|\ty"}},
      {"\u00bd 12345 \u0663\u0664",
       {"\u00bd| 12345| \u0663\u0664", "\u00bd| |1|2|3|4|5| |\u0663|\u0664",
        "\u00bd| |123|45| |\u0663\u0664", "\u00bd| |1|2|3|4|5| |\u0663|\u0664"}},
      {"  lead and trail  ",
       {" | lead| and| trail|  ", " | lead| and| trail|  ", " | lead| and| trail|  ",
        " | lead| and| trail|  "}},
      {"\n", {"\n", "\n", "\n", "\n"}},
      {"\u00e9t\u00e9 \u4eac\u90fd na\u00efve_x",
       {"\u00e9t\u00e9| \u4eac\u90fd| na\u00efve|_|x",
        "\u00e9t\u00e9| \u4eac\u90fd| na\u00efve|_|x", "\u00e9t\u00e9| \u4eac\u90fd| na\u00efve|_x",
        "\u00e9t\u00e9| \u4eac\u90fd| na\u00efve|_x"}},
      {"\u00a0\u3000wide \u2028x",
       {"\u00a0|\u3000|wide| |\u2028|x", "\u00a0|\u3000|wide| |\u2028|x",
        "\u00a0|\u3000wide| |\u2028x", "\u00a0|\u3000wide| |\u2028x"}},
      {"a.\n\nb ...\n\n",
       {"a|.|\n|\n|b| ...|\n\n", "a|.|\n|\n|b| ...|\n\n", "a|.\n\n|b| ...\n\n",
        "a|.\n\n|b| ...\n\n"}},
      {"'\u017f x'\u017f",
       {"'|\u017f| x|'|\u017f", "'|\u017f| x|'|\u017f", "'\u017f| x|'\u017f",
        "'\u017f| x|'\u017f"}},
      {"", {"", "", "", ""}},
  };
  for (const Case& each : cases) {
    for (size_t i = 0; i < kKinds.size(); ++i) {
      EXPECT_EQ(divided(each.text, kKinds[i]), each.pieces[i]) << pre_tokenizer_name(kKinds[i]);
    }
  }
}

TEST(PreTokens, HaveNames) {
  for (const PreTokenizer kind : kKinds) {
    EXPECT_EQ(parse_pre_tokenizer(pre_tokenizer_name(kind)), kind);
  }
  EXPECT_FALSE(parse_pre_tokenizer("deepseek-llm").has_value());
  EXPECT_FALSE(parse_pre_tokenizer("").has_value());
}

RC_GTEST_PROP(PreTokens, AreTheTextTogether, ()) {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      " ", "  ", "\n", "\r\n", "a", "Z", "7", "'", "s", "ll", "\u00e9", "\u00bd", "\u3000", "."));
  std::string text;
  for (const std::string& part : parts) text += part;
  for (const PreTokenizer kind : kKinds) {
    std::string all;
    for_pre_tokens(text, kind, [&](std::string_view piece) { all += piece; });
    RC_ASSERT(all == text);
  }
}

}  // namespace
}  // namespace mantissa
