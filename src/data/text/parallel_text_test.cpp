#include "data/text/parallel_text.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/test_folder.h"

namespace mantissa {
namespace {

std::string parallel_error(std::string_view text) {
  int64_t skipped = 0;
  const auto pairs = parse_parallel_text(text, skipped);
  return pairs.ok() ? "no error" : pairs.error().message;
}

std::string load_error(const std::string& content) {
  const TestFolder folder;
  std::ofstream(folder / "a.tsv") << content;
  const auto text = load_parallel_text((folder / "a.tsv").string());
  return text.ok() ? "no error" : text.error().message;
}

TEST(ParallelText, ReadsPairs) {
  int64_t skipped = 0;
  const auto pairs =
      parse_parallel_text("the file\tdie Datei\r\n\nopen\t\n \tauf\nnew\tneu", skipped);
  ASSERT_TRUE(pairs.ok()) << pairs.error().message;
  EXPECT_EQ(*pairs, (std::vector<SentencePair>{{"the file", "die Datei", ""}, {"new", "neu", ""}}));
  EXPECT_EQ(skipped, 3);
}

TEST(ParallelText, ReadsDocuments) {
  int64_t skipped = 0;
  const auto pairs = parse_parallel_text("a\tb\tone\nc\td\ttwo\n", skipped);
  ASSERT_TRUE(pairs.ok()) << pairs.error().message;
  EXPECT_EQ(*pairs, (std::vector<SentencePair>{{"a", "b", "one"}, {"c", "d", "two"}}));
  EXPECT_EQ(skipped, 0);
}

TEST(ParallelText, ErrorsNameTheLine) {
  EXPECT_EQ(parallel_error("a\tb\nc\n"),
            "line 2: has 0 tabs; a line is: source, tab, target, and if you like tab, document");
  EXPECT_EQ(parallel_error("a\tb\tc\td\n"),
            "line 1: has 3 tabs; a line is: source, tab, target, and if you like tab, document");
  EXPECT_EQ(parallel_error("a\tb\tc\nd\te\n"), "line 2: names no document, but lines before it do");
  EXPECT_EQ(parallel_error("a\tb\nd\te\tf\n"),
            "line 2: names a document, but lines before it do not");
  EXPECT_EQ(parallel_error("a\tb\t \n"), "line 1: has an empty document");
  EXPECT_EQ(parallel_error("a\t\xC3\xA4\n\xC3\tb\n"), "line 2: byte 1 is not UTF-8");
  EXPECT_EQ(parallel_error("a\t\xED\xA0\x80\n"), "line 1: byte 3 is not UTF-8");
  EXPECT_EQ(parallel_error(std::string_view("a\tb\0\n", 5)), "line 1: byte 4 is a NUL byte");
}

// Documents are whole, and the parts are near 90, 5 and 5 of 100.
TEST(ParallelText, DividesByDocument) {
  std::string content;
  for (int i = 0; i < 3000; ++i) {
    const std::string n = std::to_string(i);
    content += "source " + n + "\ttarget " + n + "\tdocument " + std::to_string(i / 3) + "\n";
  }
  const TestFolder folder;
  std::ofstream(folder / "a.tsv") << content;
  const auto text = load_parallel_text((folder / "a.tsv").string());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->train.size() + text->validation.size() + text->test.size(), 3000);
  EXPECT_NEAR(static_cast<double>(text->validation.size()), 150, 60);
  EXPECT_NEAR(static_cast<double>(text->test.size()), 150, 60);
  std::map<std::string, std::set<int>> parts_of;
  int number = 0;
  for (const auto* part : {&text->train, &text->validation, &text->test}) {
    for (const SentencePair& pair : *part) parts_of[pair.document].insert(number);
    ++number;
  }
  EXPECT_EQ(parts_of.size(), 1000);
  for (const auto& [document, parts] : parts_of) EXPECT_EQ(parts.size(), 1) << document;
}

// Without documents, a source text and its repetitions are in one part, wherever they stand.
TEST(ParallelText, RepetitionsStayTogether) {
  std::string content;
  for (int i = 0; i < 400; ++i) {
    content += "source " + std::to_string(i % 200) + "\ttarget " + std::to_string(i) + "\n";
  }
  const TestFolder folder;
  std::ofstream(folder / "a.tsv") << content;
  const auto text = load_parallel_text((folder / "a.tsv").string());
  ASSERT_TRUE(text.ok()) << text.error().message;
  std::set<std::string> train;
  for (const SentencePair& pair : text->train) train.insert(pair.source);
  for (const auto* part : {&text->validation, &text->test}) {
    for (const SentencePair& pair : *part) EXPECT_FALSE(train.contains(pair.source));
  }
}

TEST(ParallelText, RefusesFilesWithTooLittle) {
  EXPECT_NE(load_error("").find("a.tsv' is empty"), std::string::npos);
  EXPECT_NE(load_error("a\tb\n").find("has 1 pairs of sentences and, divided by document, none to"),
            std::string::npos);
  EXPECT_NE(load_error("a\n").find("a.tsv', line 1: has 0 tabs"), std::string::npos);
  const auto missing = load_parallel_text("/nowhere/a.tsv");
  EXPECT_FALSE(missing.ok());
}

}  // namespace
}  // namespace mantissa
