// Smoothing of imported language models: powers of two alone, the same logits in fp32, and smaller
// extremes of what the layers read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "networks/language/model_file.h"
#include "networks/language/test_model.h"
#include "start/smooth_language_model.h"
#include "tests/onnx/imported.h"

namespace mantissa {
namespace {

constexpr int64_t kSequence = 12;

// Queries and keys of Qwen3 have norms within their heads.
class Smoothing : public ::testing::TestWithParam<const char*> {
 protected:
  Smoothing() {
    put_file(folder_ / "model.gguf", TestModel::of(GetParam()).bytes());
    std::string text;
    for (int i = 0; i < 120; ++i) text += "An able table, a stable cable; 3 cabs and 40 labs.\n";
    put_file(folder_ / "text.txt", text);
    auto file = read_language_model(folder_ / "model.gguf");
    EXPECT_TRUE(file.ok());
    vocabulary_ = *vocabulary_of_entry(to_json(*file->tokenizer, file->chat));
    sizes_ = file->sizes;
    auto network = import_language_model(*file, kSequence);
    EXPECT_TRUE(network.ok());
    network_ = std::move(*network);
    // Two channels of the first norm, and a row of up, are large.
    std::vector<float>& scale = floats("block1.norm1.scale");
    scale[3] *= 40;
    scale[7] *= -25;
    for (int64_t i = 0; i < 16; ++i) floats("block2.up.weights")[5 * 16 + i] *= 60;
    if (GetParam() == std::string("qwen3")) floats("block1.query_norm.scale")[1] *= 30;
  }

  std::vector<float>& floats(const std::string& name) { return floats_of(network_, name); }
  static std::vector<float>& floats_of(onnx::ImportedNetwork& network, const std::string& name) {
    return std::ranges::find(network.parameters, name, &onnx::ImportedParameter::name)->floats;
  }

  Result<std::string> smooth(onnx::ImportedNetwork& network, int threads = 1) {
    return smooth_language_model(sizes_, (folder_ / "text.txt").string(), vocabulary_,
                                 {.threads = threads, .isa = best_isa()}, network);
  }

  const TestFolder folder_;
  Vocabulary vocabulary_;
  DecoderSizes sizes_;
  onnx::ImportedNetwork network_;
};

TEST_P(Smoothing, MovesPowersOfTwoAndKeepsTheLogits) {
  onnx::ImportedNetwork smoothed = network_;
  const auto entry = smooth(smoothed);
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_NE(entry->find("\"tokens\": 1020"), std::string::npos) << *entry;
  EXPECT_NE(smoothed.notes.back().find("powers of two that moved, norms "), std::string::npos);
  for (size_t p = 0; p < network_.parameters.size(); ++p) {
    const onnx::ImportedParameter &before = network_.parameters[p], &after = smoothed.parameters[p];
    const std::string& name = before.name;
    const bool may_move = name.starts_with("block");
    for (size_t i = 0; i < before.floats.size(); ++i) {
      int exponent = 0;
      const float part = std::frexp(after.floats[i] / before.floats[i], &exponent);
      ASSERT_EQ(part, 0.5f) << name << " " << i;
      if (!may_move) {
        ASSERT_EQ(exponent, 1) << name;
      }
    }
  }
  if (GetParam() == std::string("qwen3")) {
    const std::vector<float>&before = floats("block1.query_norm.scale"),
                       &after = floats_of(smoothed, "block1.query_norm.scale");
    EXPECT_NE(before, after);
    // A pair that turns together has one power.
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(after[i] / before[i], after[i + 2] / before[i + 2]);
    }
  }
  // The largest channels lose their size to the weights behind them.
  EXPECT_LE(std::abs(floats_of(smoothed, "block1.norm1.scale")[3]),
            std::abs(floats("block1.norm1.scale")[3]) / 4);
  EXPECT_LE(std::abs(floats_of(smoothed, "block2.up.weights")[5 * 16]),
            std::abs(floats("block2.up.weights")[5 * 16]) / 4);

  const std::vector<int32_t> tokens = {72, 101, 108, 108, 111, 44, 32, 119, 258, 256, 5, 259};
  const auto run = testing::ImportedRun::create(network_, 1, false),
             run_smoothed = testing::ImportedRun::create(smoothed, 1, false);
  ASSERT_TRUE(run.ok() && run_smoothed.ok());
  const auto logits = (*run)->logits(tokens), logits_smoothed = (*run_smoothed)->logits(tokens);
  ASSERT_TRUE(logits.ok() && logits_smoothed.ok());
  // Each product of the sums is the same number.
  EXPECT_EQ(*logits, *logits_smoothed);
}

TEST_P(Smoothing, DoesNotDependOnThreads) {
  onnx::ImportedNetwork one = network_, three = network_;
  ASSERT_TRUE(smooth(one).ok());
  ASSERT_TRUE(smooth(three, 3).ok());
  for (size_t p = 0; p < one.parameters.size(); ++p) {
    EXPECT_EQ(one.parameters[p].floats, three.parameters[p].floats);
  }
}

TEST_P(Smoothing, ATextThatIsTooShortIsRefused) {
  put_file(folder_ / "text.txt", std::string("short"));
  const auto entry = smooth(network_);
  ASSERT_FALSE(entry.ok());
  EXPECT_NE(entry.error().message.find("too few"), std::string::npos) << entry.error().message;
}

INSTANTIATE_TEST_SUITE_P(Families, Smoothing, ::testing::Values("llama", "qwen3"));

}  // namespace
}  // namespace mantissa
