// Language models in memory: texts, stop texts, losses, and their tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "data/tokenizers/byte_bpe/chat_template.h"
#include "mantissa/language.h"
#include "networks/language/test_model.h"

namespace mantissa {
namespace {

class LanguageModels : public testing::Test {
 protected:
  LanguageModels() {
    std::ofstream(folder_ / "a.gguf", std::ios::binary) << TestModel::whole().bytes();
  }

  LanguageModel loaded(Settings settings = {}) const {
    settings["checkpoint"] = (folder_ / "a.gguf").string();
    auto model = LanguageModel::load(settings);
    EXPECT_TRUE(model.ok()) << model.error();
    return *model;
  }

  static std::string text_of(const LanguageModel& model, const GenerationChoices& choices) {
    const auto text = model.go_on("abc", choices);
    EXPECT_TRUE(text.ok()) << text.error();
    return text->text;
  }

  TestFolder folder_;
};

TEST_F(LanguageModels, TopPDrawsAmongTheLikeliest) {
  const LanguageModel model = loaded();
  const std::string likeliest = text_of(model, {.length = 20, .temperature = 0});
  int others = 0, differing = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string all = text_of(model, {.length = 20, .seed = seed});
    EXPECT_EQ(text_of(model, {.length = 20, .top_p = 1e-9, .seed = seed}), likeliest);
    EXPECT_EQ(text_of(model, {.length = 20, .top_p = 1, .seed = seed}), all);
    const std::string some = text_of(model, {.length = 20, .top_p = 0.3, .seed = seed});
    others += some != likeliest;
    differing += some != all;
  }
  EXPECT_GT(others, 10);
  EXPECT_GT(differing, 10);
}

// The part is one of the tokens that top_k leaves.
TEST_F(LanguageModels, TopPFollowsTopK) {
  const LanguageModel model = loaded();
  const auto first = [&](int64_t top_k, double top_p, uint64_t seed) {
    return text_of(model, {.length = 1, .top_k = top_k, .top_p = top_p, .seed = seed});
  };
  std::vector<std::string> of_two, of_part;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    of_two.push_back(first(2, 1, seed));
    of_part.push_back(first(2, 0.4, seed));
  }
  const std::string likeliest = first(1, 1, 1);
  EXPECT_NE(of_two, std::vector<std::string>(60, likeliest));
  // The likelier one of two has half of their sum at least.
  EXPECT_EQ(of_part, std::vector<std::string>(60, likeliest));
}

TEST_F(LanguageModels, StopTextsEndTheTextAndAreNoPartOfIt) {
  const LanguageModel model = loaded();
  const std::string whole = text_of(model, {.length = 30, .seed = 3});
  ASSERT_GT(whole.size(), 10U);
  const std::string stop = whole.substr(whole.size() / 2, 2);
  std::string shown;
  const auto text = model.go_on("abc", {.length = 30, .seed = 3, .stop = {"no such text", stop}},
                                [&](const std::string& piece) {
                                  shown += piece;
                                  return true;
                                });
  ASSERT_TRUE(text.ok()) << text.error();
  EXPECT_EQ(text->text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(shown, text->text);
  EXPECT_EQ(text->finish, TextFinish::kStop);
  const auto unstopped = model.go_on("abc", {.length = 30, .seed = 3, .stop = {"no such text"}});
  EXPECT_EQ(unstopped->text, whole);
  EXPECT_NE(unstopped->finish, TextFinish::kStop);
  EXPECT_LT(text->tokens, unstopped->tokens);  // none is drawn after the stop text
}

TEST_F(LanguageModels, RefuseChoicesThatAreOutOfRange) {
  const LanguageModel model = loaded({{"sequence", "16"}});
  const auto refused = [&](const GenerationChoices& choices) {
    return model.go_on("abc", choices).error();
  };
  EXPECT_NE(refused({.length = 0}).find("length"), std::string::npos);
  EXPECT_NE(refused({.temperature = -1}).find("temperature"), std::string::npos);
  EXPECT_NE(refused({.top_k = -1}).find("top-k"), std::string::npos);
  EXPECT_NE(refused({.top_p = 0}).find("top-p"), std::string::npos);
  EXPECT_NE(refused({.top_p = 1.5}).find("top-p"), std::string::npos);
  EXPECT_NE(refused({.stop = {""}}).find("stop"), std::string::npos);
  const std::string prompt(40, 'x');
  EXPECT_NE(model.go_on(prompt, {}).error().find("the model reads 16"), std::string::npos);
  const auto slides = model.go_on(prompt, {.length = 20, .stays_in_sequence = false});
  ASSERT_TRUE(slides.ok()) << slides.error();
  EXPECT_TRUE(slides->finish == TextFinish::kEnd || slides->tokens == 20);
}

// A byte is a token in this text. evaluate() measures the last twentieth of a file, in sequences.
TEST_F(LanguageModels, TheLossOfATextIsThatOfEvaluate) {
  constexpr size_t kBytes = 2000, kTested = 100;
  std::string text;
  for (size_t i = 0; i < kBytes; ++i) text += static_cast<char>('c' + i * i % 17);
  std::ofstream(folder_ / "book.txt") << text;
  const LanguageModel model = loaded({{"sequence", "20"}});
  const auto file = model.evaluate({{"data", (folder_ / "book.txt").string()}});
  ASSERT_TRUE(file.ok()) << file.error();
  EXPECT_EQ(file->examples, 80);
  const auto part = model.loss(text.substr(kBytes - kTested, 81));
  ASSERT_TRUE(part.ok()) << part.error();
  EXPECT_EQ(part->examples, 80);
  EXPECT_EQ(part->loss, file->loss);
  EXPECT_EQ(part->bits_per_byte, file->bits_per_byte);
  // With a rest, which counts, too.
  const auto more = model.loss(text.substr(kBytes - kTested));
  EXPECT_EQ(more->examples, 99);
  EXPECT_NE(more->loss, file->loss);
}

// A short text is computed with fewer positions than the sequence has.
TEST_F(LanguageModels, TheLossOfAShortTextDoesNotDependOnTheSequence) {
  const LanguageModel whole = loaded({{"sequence", "8"}}), longer = loaded({{"sequence", "64"}});
  const auto a = whole.loss("cdefghijk"), b = longer.loss("cdefghijk");
  ASSERT_TRUE(a.ok() && b.ok()) << a.error() << b.error();
  EXPECT_EQ(a->examples, 8);
  EXPECT_EQ(b->examples, 8);
  EXPECT_EQ(a->loss, b->loss);
  EXPECT_EQ(longer.loss("cd")->examples, 1);
  EXPECT_NE(longer.loss("c").error().find("1 tokens, and a loss needs two"), std::string::npos);
  EXPECT_NE(longer.evaluate({{"sequence", "8"}}).error().find("sequence"), std::string::npos);
}

TEST_F(LanguageModels, TokensGoBothWays) {
  const LanguageModel model = loaded();
  const Tokenizer tokenizer = model.tokenizer();
  EXPECT_EQ(tokenizer.kind(), "byte-bpe");
  EXPECT_EQ(tokenizer.vocabulary_size(), 260);
  const auto tokens = tokenizer.encode("abc <|im_end|>");
  ASSERT_TRUE(tokens.ok()) << tokens.error();
  EXPECT_EQ((*tokens)[0], 258);  // "ab"
  EXPECT_EQ(*tokenizer.decode(*tokens), "abc <|im_end|>");
  EXPECT_EQ(*tokenizer.token(257), "<|im_end|>");
  EXPECT_EQ(*tokenizer.decode({257, 'c'}), "c");
  EXPECT_EQ(*tokenizer.decode({257, 'c'}, true), "<|im_end|>c");
  EXPECT_NE(tokenizer.token(260).error().find("no token 260"), std::string::npos);
  EXPECT_NE(tokenizer.decode({-1}).error().find("no token -1"), std::string::npos);
  EXPECT_EQ(tokenizer.special_tokens().end, 257);
  EXPECT_EQ(tokenizer.special_tokens().first, -1);
  EXPECT_NE(tokenizer.encode({ChatMessage{"user", "c"}}, true).error().find("no chat template"),
            std::string::npos);
}

TEST_F(LanguageModels, ConversationsBecomeTokensByTheTemplate) {
  GgufBytes file = TestModel::keys();
  TestModel::add_tokenizer(file);
  file.add_text("tokenizer.chat_template", to_jinja(ChatTemplate()));
  TestModel().add_tensors(file);
  std::ofstream(folder_ / "a.gguf", std::ios::binary) << file.bytes();
  const LanguageModel model = loaded();
  const Tokenizer tokenizer = model.tokenizer();
  const std::vector<ChatMessage> messages = {{"user", "c <|im_end|>"}};
  const auto tokens = tokenizer.encode(messages, true);
  ASSERT_TRUE(tokens.ok()) << tokens.error();
  EXPECT_EQ(*tokenizer.decode(*tokens, true),
            "<|im_start|>user\nc <|im_end|><|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(*tokenizer.decode(*tokenizer.encode(messages, false), true),
            "<|im_start|>user\nc <|im_end|><|im_end|>\n");
  EXPECT_EQ(std::ranges::count(*tokens, 257), 1);  // what a person wrote is text
  EXPECT_EQ(std::ssize(*tokens), *model.count_tokens(messages));
  EXPECT_NE(tokenizer.encode({ChatMessage{"tool", "c"}}, true).error().find("role"),
            std::string::npos);
}

}  // namespace
}  // namespace mantissa
