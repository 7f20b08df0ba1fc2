#include "data/text/gettext.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "base/random.h"
#include "base/test_folder.h"

namespace mantissa {
namespace {

using Messages = std::vector<std::pair<std::string, std::string>>;

void append_number(uint32_t number, bool is_big, std::string& to) {
  for (int i = 0; i < 4; ++i) {
    to += static_cast<char>(number >> 8 * (is_big ? 3 - i : i) & 0xFF);
  }
}

// A catalogue as msgfmt writes it, without a hash table.
std::string catalogue(const Messages& messages, bool is_big = false) {
  const auto count = static_cast<uint32_t>(messages.size());
  std::string bytes, texts;
  const auto number = [&](uint32_t value) { append_number(value, is_big, bytes); };
  for (const uint32_t value : {0x950412DEU, 0U, count, 28U, 28 + 8 * count, 0U, 0U}) number(value);
  const uint32_t front = 28 + 16 * count;
  const auto table = [&](const auto& text_of) {
    for (const auto& message : messages) {
      const std::string& text = text_of(message);
      number(static_cast<uint32_t>(text.size()));
      number(front + static_cast<uint32_t>(texts.size()));
      texts += text + '\0';
    }
  };
  table([](const auto& message) -> const std::string& { return message.first; });
  table([](const auto& message) -> const std::string& { return message.second; });
  return bytes + texts;
}

const Messages& example() {
  static const Messages messages = {
      {"", "Language: de\nContent-Type: text/plain; charset=UTF-8\n"},
      {"open file\n", "Datei öffnen\n"},
      {std::string("menu\x04") + "Edit", "Bearbeiten"},
      {std::string("%d file\0%d files", 16), std::string("%d Datei\0%d Dateien", 19)},
      {"a\n  b\tc", "x   y"},
      {"not translated", ""},
      {" \n", "leer"}};
  return messages;
}

std::string error_of(std::string_view bytes) {
  int64_t skipped = 0;
  const auto pairs = parse_catalogue(bytes, "", skipped);
  return pairs.ok() ? "no error" : pairs.error().message;
}

TEST(Gettext, ReadsBothByteOrders) {
  for (const bool is_big : {false, true}) {
    int64_t skipped = 0;
    const auto pairs = parse_catalogue(catalogue(example(), is_big), "d", skipped);
    ASSERT_TRUE(pairs.ok()) << pairs.error().message;
    EXPECT_EQ(*pairs, (std::vector<SentencePair>{{"open file", "Datei öffnen", "d"},
                                                 {"Edit", "Bearbeiten", "d"},
                                                 {"%d file", "%d Datei", "d"},
                                                 {"a b c", "x y", "d"}}));
    EXPECT_EQ(skipped, 2);
  }
}

TEST(Gettext, BringsCharsetsToUtf8) {
  int64_t skipped = 0;
  const auto pairs =
      parse_catalogue(catalogue({{"", "Content-Type: text/plain; charset=ISO-8859-1\n"},
                                 {"open",
                                  "\xd6"
                                  "ffnen"}}),
                      "", skipped);
  ASSERT_TRUE(pairs.ok()) << pairs.error().message;
  ASSERT_EQ(pairs->size(), 1);
  EXPECT_EQ((*pairs)[0].target, "Öffnen");
}

// Line ends of other charsets are none of a sentence either.
TEST(Gettext, HasOneLineInAnyCharset) {
  int64_t skipped = 0;
  const auto pairs =
      parse_catalogue(catalogue({{"", "charset=IBM037\n"}, {"\x81\x25\x82", "\x83"}}), "", skipped);
  if (!pairs.ok() && pairs.error().message.find("does not know") != std::string::npos) {
    GTEST_SKIP() << "this system's iconv lacks IBM037";
  }
  ASSERT_TRUE(pairs.ok()) << pairs.error().message;
  ASSERT_EQ(pairs->size(), 1);
  EXPECT_EQ((*pairs)[0].source, "a b");
}

TEST(Gettext, SaysWhatIsWrong) {
  EXPECT_NE(error_of("").find("too short"), std::string::npos);
  EXPECT_NE(error_of("source\ttarget, a text").find("no gettext catalogue"), std::string::npos);
  EXPECT_NE(error_of(catalogue({{"", "charset=KLINGON-7//IGNORE\n"}})).find("charset 'KLINGON-7'"),
            std::string::npos);
  EXPECT_NE(error_of(catalogue({{"a", "b"}, {"c", "\xc3("}})).find("message 2: is not UTF-8"),
            std::string::npos);
  std::string revision = catalogue(example());
  revision[6] = 7;
  EXPECT_NE(error_of(revision).find("revision 7"), std::string::npos);
  std::string count = catalogue(example());
  count.replace(8, 4, "\xff\xff\xff\x7f");
  EXPECT_NE(error_of(count).find("ends beyond"), std::string::npos);
  for (const size_t entry : {28, 32}) {  // the first length, and its offset
    std::string beyond = catalogue(example());
    beyond.replace(entry, 4, "\xf0\xff\xff\xff");
    EXPECT_NE(error_of(beyond).find("message 1: its text"), std::string::npos);
  }
}

TEST(Gettext, OutlivesAnyBytes) {
  const std::string whole = catalogue(example());
  for (size_t length = 0; length < whole.size(); ++length) error_of(whole.substr(0, length));
  for (uint64_t i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (uint64_t k = 0; k < 3; ++k) {
      const uint64_t bits = random_bits(1, RandomStream::kShuffle, static_cast<uint32_t>(i), k);
      bytes[bits % bytes.size()] = static_cast<char>(bits >> 40);
    }
    error_of(bytes);
  }
}

TEST(Gettext, CataloguesOfAFolderAreDocuments) {
  const TestFolder folder;
  for (int i = 0; i < 60; ++i) {
    const std::string number = std::to_string(i);
    std::ofstream(folder / ("program" + number + ".mo"), std::ios::binary)
        << catalogue({{"", "charset=utf-8\n"},
                      {"first " + number, "erster " + number},
                      {"second " + number, "zweiter " + number}});
  }
  std::ofstream(folder / "README") << "not a catalogue";
  const auto text = load_parallel_text((folder / ".").string());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->train.size() + text->validation.size() + text->test.size(), 120);
  for (const auto* part : {&text->train, &text->validation, &text->test}) {
    ASSERT_EQ(part->size() % 2, 0);
    for (size_t i = 0; i < part->size(); i += 2) {
      EXPECT_EQ((*part)[i].document, (*part)[i + 1].document);
      EXPECT_TRUE((*part)[i].document.starts_with("program"));
    }
  }
  const TestFolder empty;
  const auto none = load_parallel_text((empty / ".").string());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("no gettext catalogues"), std::string::npos);
  const auto one = load_parallel_text((folder / "program7.mo").string());
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.error().message.find("2 pairs of sentences"), std::string::npos);
}

// 5 MB that would be 400 GB: 200,000 messages point at one text.
TEST(Gettext, MessagesMayNotShareTheirTexts) {
  constexpr uint32_t kCount = 20'000, kText = 200'000;
  std::string bytes;
  for (const uint32_t value : {0x950412DEU, 0U, kCount, 28U, 28 + 8 * kCount, 0U, 0U}) {
    append_number(value, false, bytes);
  }
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    append_number(kText, false, bytes);
    append_number(28 + 16 * kCount, false, bytes);
  }
  bytes += std::string(kText, 'a');
  EXPECT_NE(error_of(bytes).find("many point at the same text"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
