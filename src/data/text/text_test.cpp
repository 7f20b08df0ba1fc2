#include "data/text/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/files/atomic_file.h"
#include "base/test_folder.h"
#include "data/batches/ordered_batches.h"

namespace mantissa {
namespace {

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(Vocabulary, OfCharactersIsInTheOrderOfCodePoints) {
  const auto vocabulary = vocabulary_of("zaé€a\n𝄞", Tokens::kCharacters);
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->names(), (std::vector<std::string>{"\n", "a", "z", "é", "€", "𝄞"}));
  EXPECT_EQ(vocabulary->tokens(), Tokens::kCharacters);
  const auto tokens = vocabulary->encode("a€𝄞\n");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(*tokens, (std::vector<Token>{1, 4, 5, 0}));
  EXPECT_EQ(vocabulary->decode(*tokens), "a€𝄞\n");
}

TEST(Vocabulary, OfBytesHasThemAll) {
  const auto vocabulary = vocabulary_of("x", Tokens::kBytes);
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->names().size(), 256);
  EXPECT_EQ(vocabulary->tokens(), Tokens::kBytes);
  const std::string bytes("\0\xff\xc3", 3);
  const auto tokens = vocabulary->encode(bytes);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(*tokens, (std::vector<Token>{0, 255, 0xc3}));
  EXPECT_EQ(vocabulary->decode(*tokens), bytes);
}

TEST(Vocabulary, RefusesWhatIsNoTextAndSaysWhere) {
  const auto message = [](std::string_view text) {
    const auto vocabulary = vocabulary_of(text, Tokens::kCharacters);
    return vocabulary.ok() ? std::string() : vocabulary.error().message;
  };
  // Broken off, a continuation alone, too long a form, a surrogate, beyond the last code point.
  for (const std::string broken :
       {"\xc3", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_EQ(message("ab\nc" + broken),
              "line 2, byte 4: is not UTF-8; --tokens bytes takes any bytes");
  }
  EXPECT_NE(message(std::string("ab\0", 3)).find("NUL"), std::string::npos);
  EXPECT_NE(message("aaaa"), "");
  std::string many;
  for (int point = 0x10000; point <= 0x10000 + kMostCharacters; ++point) {
    many +=
        {static_cast<char>(0xF0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 0x3F)),
         static_cast<char>(0x80 | (point >> 6 & 0x3F)), static_cast<char>(0x80 | (point & 0x3F))};
  }
  EXPECT_NE(message(many).find("65537 different characters"), std::string::npos);
  // One less is possible, and the last token is not the first again.
  many.resize(many.size() - 4);
  const auto most = vocabulary_of(many, Tokens::kCharacters);
  ASSERT_TRUE(most.ok()) << most.error().message;
  const std::string last = many.substr(many.size() - 4);
  EXPECT_EQ(*most->encode(last), (std::vector<Token>{65535}));
  EXPECT_EQ(most->decode(std::vector<Token>{65535}), last);
}

TEST(Vocabulary, NamesACharacterThatItLacks) {
  const auto vocabulary = vocabulary_of("abc", Tokens::kCharacters);
  const auto tokens = vocabulary->encode("ab\né");
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.error().message,
            "line 1, byte 2: the network does not know '\n'; it knows 3 characters");
}

TEST(Text, HasContiguousPartsAndExamplesOfThem) {
  const TestFolder folder;
  const std::string path = (folder.path() / "text.txt").string();
  const std::string content = repeated("0123456789", 100);
  ASSERT_TRUE(write_text_atomically(path, content).ok());
  const auto text = load_text(path, {.sequence = 8});
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->train.size(), 900);
  EXPECT_EQ(text->validation.size(), 50);
  EXPECT_EQ(text->test.size(), 50);
  const Examples examples = text_examples(text->train, 8);
  EXPECT_EQ(examples.count, 112);
  auto batches = OrderedBatches::create(examples, 2);
  ASSERT_TRUE(batches.ok());
  const Batch batch = batches->next();
  const auto* tokens = static_cast<const int32_t*>(batch.find(kTokenTensor));
  const auto* labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(tokens[i], i % 10);
    EXPECT_EQ(labels[i], (i + 1) % 10);
  }
  const auto info = inspect_text(path, {.sequence = 8});
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->target.classes, 10);
  EXPECT_EQ(info->train_count, 112);
  EXPECT_EQ(info->validation_count, 6);
  EXPECT_EQ(info->test_count, 6);
  std::vector<std::string> notes;
  const auto test = load_test_tokens(path, text->vocabulary, {.sequence = 8}, notes);
  ASSERT_TRUE(test.ok());
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(*test, text->test);
  EXPECT_NE(load_text(path, {.sequence = 9})->sha256, text->sha256);
}

// Windows programs put it before UTF-8.
TEST(Text, AByteOrderMarkIsNoCharacter) {
  const TestFolder folder;
  const std::string plain = (folder / "a.txt").string(), marked = (folder / "b.txt").string();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "The quick brown fox.\n";
  std::ofstream(plain) << text;
  std::ofstream(marked) << "\xef\xbb\xbf" << text;
  const auto a = load_text(plain, {.sequence = 8}), b = load_text(marked, {.sequence = 8});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->vocabulary.names(), b->vocabulary.names());
  EXPECT_EQ(a->train, b->train);
}

TEST(Text, UnknownCharactersAreLeftOutAndCounted) {
  const TestFolder folder;
  const std::string path = (folder / "a.txt").string();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "The quick brown fox.\n";
  std::ofstream(path) << text;
  const auto known = load_text(path, {.sequence = 8});
  ASSERT_TRUE(known.ok());
  std::ofstream(path) << "\xC3\xB6" << text << "\xC3\xB6\xC3\xB1";
  std::vector<std::string> notes;
  const auto test = load_test_tokens(path, known->vocabulary, {.sequence = 8}, notes);
  ASSERT_TRUE(test.ok()) << test.error().message;
  EXPECT_EQ(*test, known->test);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "3 characters ('ö', 'ñ') are left out: the network does not know them");
  std::ofstream(path) << text << "\xff";
  EXPECT_FALSE(load_test_tokens(path, known->vocabulary, {.sequence = 8}, notes).ok());
}

TEST(Text, IsReadWithAVocabularyThatIsKnown) {
  const TestFolder folder;
  const std::string path = folder.path() / "text";
  ASSERT_TRUE(write_text_atomically(path, repeated("ab\n", 40)).ok());
  TextOptions options{.sequence = 2};
  const auto own = load_text(path, options);
  ASSERT_TRUE(own.ok());
  options.known = std::make_shared<const Vocabulary>(std::vector<std::string>{"b", "c", "\n", "a"});
  const auto known = load_text(path, options);
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->vocabulary.names(), options.known->names());
  EXPECT_EQ(std::vector(known->train.begin(), known->train.begin() + 3),
            (std::vector<Token>{3, 0, 2}));
  EXPECT_NE(known->sha256, own->sha256);
  options.task = TextTask::kMasks;
  const auto masked = load_text(path, options);
  ASSERT_TRUE(masked.ok());
  EXPECT_EQ(masked->vocabulary.mask(), Token{4});
  options.known = std::make_shared<const Vocabulary>(std::vector<std::string>{"b", "\n"});
  const auto lacking = load_text(path, options);
  ASSERT_FALSE(lacking.ok());
  EXPECT_NE(lacking.error().message.find("line 1, byte 0: the network does not know 'a'"),
            std::string::npos);
}

TEST(Text, RefusesFilesThatAreTooShortOrEmpty) {
  const TestFolder folder;
  const std::string path = (folder.path() / "text.txt").string();
  ASSERT_TRUE(write_text_atomically(path, "").ok());
  EXPECT_FALSE(load_text(path, {.sequence = 8}).ok());
  ASSERT_TRUE(write_text_atomically(path, repeated("ab", 80)).ok());
  const auto text = load_text(path, {.sequence = 8});
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().message.find("160 tokens: too few"), std::string::npos);
  EXPECT_TRUE(load_text(path, {.sequence = 7}).ok());
  EXPECT_FALSE(inspect_text(folder.path().string(), {.sequence = 8}).ok());
}

// Masked examples of a text of `tokens` different tokens.
struct MaskedExamples {
  static constexpr int64_t kSequence = 50;
  static constexpr int kTokens = 40;
  std::vector<Token> text;
  Examples examples;

  explicit MaskedExamples(int64_t count, uint64_t seed = 7) {
    std::vector<std::string> names;
    for (int i = 0; i < kTokens; ++i) names.push_back(std::string(1, static_cast<char>('0' + i)));
    names.emplace_back(kMaskName);
    for (int64_t i = 0; i <= count * kSequence; ++i) {
      text.push_back(static_cast<Token>(i * i % kTokens));
    }
    examples = masked_examples(text, kSequence, Vocabulary(names), seed);
  }

  struct Example {
    std::vector<int32_t> tokens = std::vector<int32_t>(kSequence),
                         segments = std::vector<int32_t>(kSequence, 9),
                         labels = std::vector<int32_t>(kSequence);
    int32_t length = 0;
    bool operator==(const Example&) const = default;
  };
  Example write(uint32_t epoch, uint32_t example) const {
    Example result;
    std::byte* const places[] = {reinterpret_cast<std::byte*>(result.tokens.data()),
                                 reinterpret_cast<std::byte*>(result.segments.data()),
                                 reinterpret_cast<std::byte*>(&result.length),
                                 reinterpret_cast<std::byte*>(result.labels.data())};
    examples.write(epoch, example, places);
    return result;
  }
};

TEST(MaskedText, FifteenOfAHundredTokensAreChosenAndEightOfTenMasked) {
  constexpr int64_t kCount = 2000;
  const MaskedExamples masked(kCount);
  ASSERT_EQ(masked.examples.count, kCount);
  int64_t chosen = 0, masks = 0, same = 0, all = 0;
  for (uint32_t example = 0; example < kCount; ++example) {
    const auto written = masked.write(0, example);
    EXPECT_EQ(written.length, MaskedExamples::kSequence);
    EXPECT_EQ(written.segments, std::vector<int32_t>(MaskedExamples::kSequence, 0));
    for (int64_t i = 0; i < MaskedExamples::kSequence; ++i, ++all) {
      const int32_t was = masked.text[example * MaskedExamples::kSequence + i];
      if (written.labels[i] == -1) {
        EXPECT_EQ(written.tokens[i], was);
        continue;
      }
      EXPECT_EQ(written.labels[i], was);
      EXPECT_LE(written.tokens[i], MaskedExamples::kTokens);
      ++chosen;
      masks += written.tokens[i] == MaskedExamples::kTokens;
      same += written.tokens[i] == was;
    }
  }
  const auto part = [](int64_t some, int64_t of) {
    return static_cast<double>(some) / static_cast<double>(of);
  };
  EXPECT_NEAR(part(chosen, all), 0.15, 0.005);
  EXPECT_NEAR(part(masks, chosen), 0.8, 0.015);
  // Kept, or by chance the random one.
  EXPECT_NEAR(part(same, chosen), 0.1 + 0.1 / MaskedExamples::kTokens, 0.015);
}

TEST(MaskedText, ChoicesFollowFromSeedEpochAndExample) {
  const MaskedExamples one(20), other(20, 8);
  EXPECT_EQ(one.write(3, 5), one.write(3, 5));
  EXPECT_NE(one.write(3, 5), one.write(4, 5));
  EXPECT_NE(one.write(3, 5), other.write(3, 5));
}

TEST(MaskedText, AnExampleHasAtLeastOneLabel) {
  const std::vector<Token> text(1001, 0);
  const Vocabulary vocabulary({"a", "b", kMaskName});
  const Examples examples = masked_examples(text, 1, vocabulary, 1);
  for (uint32_t example = 0; example < 1000; ++example) {
    int32_t token = 0, segment = 0, length = 0, label = -1;
    std::byte* const places[] = {
        reinterpret_cast<std::byte*>(&token), reinterpret_cast<std::byte*>(&segment),
        reinterpret_cast<std::byte*>(&length), reinterpret_cast<std::byte*>(&label)};
    examples.write(0, example, places);
    EXPECT_EQ(label, 0);
  }
}

}  // namespace
}  // namespace mantissa
