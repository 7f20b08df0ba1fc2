// Language models of other programs, straight from their files.
#include "start/load_language_model.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/test_folder.h"
#include "infer/text/generate.h"
#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "networks/language/test_model.h"

namespace mantissa {
namespace {

constexpr int64_t kPositions = 48;

class LoadLanguageModel : public testing::Test {
 protected:
  LoadLanguageModel() {
    std::ofstream(gguf(), std::ios::binary) << TestModel::whole().bytes();
  }
  std::filesystem::path gguf() const { return folder_ / "a.gguf"; }

  // The file that import makes.
  std::filesystem::path imported() const {
    const auto file = read_language_model(gguf());
    const auto network = import_language_model(*file, kPositions);
    EXPECT_TRUE(network.ok());
    const std::filesystem::path path = folder_ / "a.safetensors";
    const std::map<std::string, std::string> entries = {{kTokenizerEntry, *tokenizer_entry(*file)}};
    EXPECT_TRUE(write_imported(path, *network, "a.gguf", entries).ok());
    return path;
  }

  static FrozenNetwork loaded(const std::filesystem::path& path, const char* format) {
    auto network = load_language_model(path, *parse_format(format), 0, kPositions);
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    return std::move(*network);
  }

  static TextGoneOn go_on(FrozenNetwork& network, const GenerationOptions& options,
                          DecodingForm form = DecodingForm::kCached) {
    ThreadPool pool(2);
    auto text = generate_text(network, "abc", options, form, pool, best_isa(), nullptr);
    EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
    return *text;
  }

  TestFolder folder_;
};

TEST_F(LoadLanguageModel, HasTheTextsOfTheFileThatImportMakes) {
  const auto path = imported();
  EXPECT_TRUE(*is_imported_language_model(gguf()));
  EXPECT_TRUE(*is_imported_language_model(path));
  FrozenNetwork a = loaded(gguf(), "fp32"), b = loaded(path, "fp32");
  const TextGoneOn text = go_on(a, {.length = 30, .seed = 5});
  EXPECT_GT(text.tokens, 0);
  EXPECT_EQ(text.text, go_on(b, {.length = 30, .seed = 5}).text);
  EXPECT_EQ(text.text, go_on(a, {.length = 30, .seed = 5}, DecodingForm::kWhole).text);
}

TEST_F(LoadLanguageModel, RefusesFormatsThatNeedExamplesAndOtherLengths) {
  const auto message = [](const Result<FrozenNetwork>& network) {
    return network.ok() ? std::string() : network.error().message;
  };
  const auto bfp8 = load_language_model(gguf(), *parse_format("bfp8"), 0, kPositions);
  EXPECT_NE(message(bfp8).find("would have to be calibrated"), std::string::npos);
  const Format fp32 = *parse_format("fp32");
  EXPECT_NE(message(load_language_model(gguf(), fp32, 65, kPositions)).find("64 positions"),
            std::string::npos);
  EXPECT_NE(message(load_language_model(imported(), fp32, 20, kPositions))
                .find("mantissa import --sequence 20"),
            std::string::npos);
  EXPECT_EQ(message(load_language_model(gguf(), fp32, 20, kPositions)), "");
}

// The token that ends a text is drawn, and is no part of it.
TEST_F(LoadLanguageModel, TextsEndWithTheEndToken) {
  FrozenNetwork network = loaded(gguf(), "fp32");
  int ended = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const TextGoneOn text = go_on(network, {.length = 40, .seed = seed});
    EXPECT_EQ(text.text.find("<|im_"), std::string::npos);
    EXPECT_EQ(text.end == TextEnd::kEnd, text.tokens < 40);
    ended += text.end == TextEnd::kEnd;
    if (text.end != TextEnd::kEnd) continue;
    EXPECT_EQ(go_on(network, {.length = 100, .seed = seed}).text, text.text);
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, 40);
}

TEST_F(LoadLanguageModel, TextsStayInTheSequenceIfTheyAreToldTo) {
  FrozenNetwork network = loaded(gguf(), "fp32");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const TextGoneOn text =
        go_on(network, {.length = 1000, .seed = seed, .stays_in_sequence = true});
    EXPECT_LE(text.tokens + 2, kPositions);  // after the tokens "ab" and "c"
  }
}

// A text goes on from the positions of the last one, as far as they are the same.
TEST_F(LoadLanguageModel, KeepsThePositionsOfTheLastText) {
  FrozenNetwork network = loaded(gguf(), "fp32");
  ThreadPool pool(1);
  const auto fresh = [&] {
    return std::move(*Generator::create(network, DecodingForm::kCached, pool, best_isa()));
  };
  const auto kept = fresh();
  for (const char* prompt : {"abcabc", "abcabd and more", "abcabd and more", "x"}) {
    const GenerationOptions options{.length = 8, .temperature = 0, .keeps_positions = true};
    const auto tokens = kept->encode_prompt(prompt);
    EXPECT_EQ(kept->go_on(*tokens, options, nullptr)->text,
              fresh()->go_on(*tokens, options, nullptr)->text)
        << prompt;
  }
}

// The observer gets whole characters, and all of the text.
TEST_F(LoadLanguageModel, PiecesAreWholeCharacters) {
  FrozenNetwork network = loaded(gguf(), "fp32");
  ThreadPool pool(1);
  std::string all;
  const auto text = generate_text(network, "abc", {.length = 100, .seed = 3}, DecodingForm::kCached,
                                  pool, best_isa(), [&](const std::string& piece) {
                                    EXPECT_FALSE(piece.empty());
                                    all += piece;
                                    return true;
                                  });
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(all, text->text);
  const auto stopped = generate_text(network, "abc", {.length = 100}, DecodingForm::kCached, pool,
                                     best_isa(), [](const std::string&) { return false; });
  EXPECT_EQ(stopped->end, TextEnd::kStopped);
}

}  // namespace
}  // namespace mantissa
