// Language models of files, in fp32, against transformers.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/test_folder.h"
#include "networks/language/model_file.h"
#include "networks/language/test_model.h"
#include "tests/onnx/imported.h"

namespace mantissa {
namespace {

// The logits of transformers 5.24 in float64, for the same weights: of some positions, the tokens
// 0, 101, 200 and 259, and the likeliest token.
struct Expected {
  int64_t position;
  std::array<double, 4> logits;
  int64_t likeliest;
};
constexpr Expected kExpected[] = {{0, {0.9320222, -2.5524446, 3.0368249, 4.2244870}, 171},
                                  {1, {-0.1339465, 1.8857311, 1.9332816, 5.7343919}, 76},
                                  {7, {-1.3181474, 2.9597780, -1.9265936, -3.5654288}, 40},
                                  {11, {0.2582194, 4.4116971, 0.3338588, -1.2952779}, 174}};

TEST(LlamaModels, HaveTheLogitsOfTransformers) {
  const TestFolder folder;
  put_file(folder / "model.gguf", TestModel::whole().bytes());
  const auto file = read_language_model(folder / "model.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::vector<int32_t> tokens = {72, 101, 108, 108, 111, 44, 32, 119, 258, 256, 5, 259};
  const auto network = import_language_model(*file, std::ssize(tokens));
  ASSERT_TRUE(network.ok()) << network.error().message;
  const auto run = testing::ImportedRun::create(*network, 1, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto logits = (*run)->logits(tokens);
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  constexpr auto kTokens = static_cast<int64_t>(TestModel::kTokens);
  ASSERT_EQ(std::ssize(*logits), std::ssize(tokens) * kTokens);
  constexpr double kTolerance = 2e-5;  // the largest is 8.8
  for (const Expected& expected : kExpected) {
    const float* row = logits->data() + expected.position * kTokens;
    constexpr std::array<int64_t, 4> kPlaces = {0, 101, 200, 259};
    for (size_t i = 0; i < kPlaces.size(); ++i) {
      EXPECT_NEAR(row[kPlaces[i]], expected.logits[i], kTolerance)
          << "position " << expected.position << ", token " << kPlaces[i];
    }
    EXPECT_EQ(std::max_element(row, row + kTokens) - row, expected.likeliest);
  }
}

}  // namespace
}  // namespace mantissa
