// Parallel text as examples.
#include <gtest/gtest.h>

#include <fstream>

#include "base/test_folder.h"
#include "data/batches/ordered_batches.h"
#include "data/text/text.h"

namespace mantissa {
namespace {

constexpr Token kEnd = 9;

std::vector<int32_t> tensor(const Batch& batch, const char* name, int64_t count) {
  const auto* from = static_cast<const int32_t*>(batch.find(name));
  return {from, from + count};
}

TEST(SentencePairs, AreLinesOfTokens) {
  const std::vector<Token> tokens = {1, 2, kEnd, kEnd, 3, kEnd, 4};
  const auto lines = lines_of(tokens, kEnd);
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[0].size(), 2);
  EXPECT_TRUE(lines[1].empty());
  EXPECT_EQ(lines[2][0], 3);
  EXPECT_EQ(lines[3][0], 4);
  EXPECT_TRUE(lines_of({}, kEnd).empty());
}

TEST(SentencePairs, BeginAndEndWithALineFeed) {
  const std::vector<Token> tokens = {1, 2, kEnd, 3, kEnd, 4, kEnd, 5, 6, kEnd};
  const Examples examples = pair_examples(tokens, 3, kEnd);
  ASSERT_EQ(examples.count, 2);
  auto batches = OrderedBatches::create(examples, 2);
  ASSERT_TRUE(batches.ok());
  const Batch batch = batches->next();
  EXPECT_EQ(tensor(batch, kSourceTensor, 6), (std::vector<int32_t>{1, 2, kEnd, 4, kEnd, kEnd}));
  EXPECT_EQ(tensor(batch, kSourceLengthTensor, 2), (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(tensor(batch, kTranslationTensor, 6),
            (std::vector<int32_t>{kEnd, 3, kEnd, kEnd, 5, 6}));
  EXPECT_EQ(tensor(batch, kLabelTensor, 6), (std::vector<int32_t>{3, kEnd, -1, 5, 6, kEnd}));
}

TEST(SentencePairs, ThatAreTooLongAreLeftOut) {
  // A source of three, a translation of two and its end, one of three.
  const std::vector<Token> tokens = {1, 2,    3, kEnd, 1, kEnd, 1, kEnd, 1,
                                     2, kEnd, 1, kEnd, 1, 2,    3, kEnd};
  EXPECT_EQ(pair_examples(tokens, 2, kEnd).count, 0);
  EXPECT_EQ(pair_examples(tokens, 3, kEnd).count, 2);
  EXPECT_EQ(pair_examples(tokens, 4, kEnd).count, 3);
}

// Sixty documents of a pair each, so that every part has some; the first ten are longer.
std::string corpus(const std::string& source) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    const std::string number = (i < 10 ? "number " : "") + std::to_string(i);
    lines += source + number + "\tdas Haus " + number + "\tdocument" + number + "\n";
  }
  return lines;
}

TEST(SentencePairs, OfAFileKeepTheirTexts) {
  const TestFolder folder;
  const std::string path = (folder / "a.tsv").string();
  std::ofstream(path) << corpus("the house ");
  for (const Tokens kind : {Tokens::kCharacters, Tokens::kBytes, Tokens::kPieces}) {
    const TextOptions options{.sequence = 32,
                              .tokens = kind,
                              .pieces = kind == Tokens::kPieces ? 64 : 0,
                              .task = TextTask::kTranslation};
    const auto text = load_text(path, options);
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_TRUE(text->notes.empty());
    const auto end = text->vocabulary.line_feed();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(text->vocabulary.decode({&*end, 1}), "\n");
    const auto lines = lines_of(text->train, *end);
    ASSERT_GE(lines.size(), 2);
    EXPECT_TRUE(text->vocabulary.decode(lines[0]).starts_with("the house "));
    EXPECT_TRUE(text->vocabulary.decode(lines[1]).starts_with("das Haus "));
    const auto info = inspect_text(path, options);
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->train_count + info->validation_count + info->test_count, 60);
    std::vector<std::string> notes;
    const auto test = load_test_tokens(path, text->vocabulary, options, notes);
    ASSERT_TRUE(test.ok());
    EXPECT_EQ(*test, text->test);
  }
}

TEST(SentencePairs, OfAFileSayWhatIsWrong) {
  const TestFolder folder;
  const std::string path = (folder / "a.tsv").string();
  std::ofstream(path) << corpus("the house ");
  const auto load = [&](int64_t sequence) {
    return load_text(path, {.sequence = sequence, .task = TextTask::kTranslation});
  };
  const auto none = load(8);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("no pair of sentences of at most 8 tokens"),
            std::string::npos);
  const auto some = load(12);
  ASSERT_TRUE(some.ok()) << some.error().message;
  ASSERT_EQ(some->notes.size(), 1);
  EXPECT_EQ(some->notes[0],
            "10 of 60 pairs are left out: they have more than 12 tokens (--sequence)");
  // Another file with a character that the vocabulary has not.
  const std::string other = (folder / "b.tsv").string();
  std::ofstream(other) << corpus("the hoŭse ");
  std::vector<std::string> notes;
  const auto unknown = load_test_tokens(other, some->vocabulary,
                                        {.sequence = 16, .task = TextTask::kTranslation}, notes);
  ASSERT_TRUE(unknown.ok()) << unknown.error().message;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(" characters ('ŭ') are left out"), std::string::npos) << notes[0];
}

}  // namespace
}  // namespace mantissa
