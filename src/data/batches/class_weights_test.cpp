#include "data/batches/class_weights.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

TEST(ClassWeights, AreReadAndWritten) {
  for (const char* text : {"none", "balanced", "1,2,0.5", "0,31"}) {
    const auto weights = parse_class_weights(text);
    ASSERT_TRUE(weights.ok()) << text;
    EXPECT_EQ(to_string(*weights), text);
    EXPECT_EQ(weights->any(), std::string(text) != "none");
  }
  for (const char* text : {"many", "1,,2", "1,-1", "32", "0,0", "nan", "1e-5", "1,2,"}) {
    EXPECT_FALSE(parse_class_weights(text).ok()) << text;
  }
}

TEST(ClassWeights, BalancedGivesEachClassTheSameSum) {
  std::vector<Label> labels(60, 0);
  for (int i = 0; i < 20; ++i) labels[i] = 1;
  labels[59] = 2;
  const auto mantissas = class_weight_mantissas({.balanced = true, .weights = {}}, labels, 4);
  ASSERT_TRUE(mantissas.ok());
  // 60 / 4 / (39, 20, 1 and none).
  EXPECT_EQ(*mantissas, (std::vector<int16_t>{394, 768, 15360, 0}));
}

TEST(ClassWeights, RareClassesScaleTheOthersDown) {
  std::vector<Label> labels(1000, 0);
  labels[0] = 1;
  const auto mantissas = class_weight_mantissas({.balanced = true, .weights = {}}, labels, 2);
  ASSERT_TRUE(mantissas.ok());
  // 500.5 / 1000 and 500 / 1, by 32.
  EXPECT_EQ(*mantissas, (std::vector<int16_t>{16, 16000}));
}

TEST(ClassWeights, CountsOfClassesMustFit) {
  const std::vector<Label> labels = {0, 1};
  EXPECT_FALSE(class_weight_mantissas({.balanced = false, .weights = {1, 2, 3}}, labels, 2).ok());
  EXPECT_EQ(*class_weight_mantissas({.balanced = false, .weights = {1, 0.5}}, labels, 2),
            (std::vector<int16_t>{1024, 512}));
}

TEST(ClassWeights, ExamplesCarryTheWeightOfTheirLabel) {
  const std::vector<int32_t> labels = {1, 0, 1};
  const Examples examples = with_class_weights(
      array_examples(3, {{{kLabelTensor, DataType::kInt32, Shape{}}, labels.data()}}), {5, 7});
  ASSERT_EQ(examples.specs.size(), 2u);
  EXPECT_EQ(examples.specs[1].name, kWeightTensor);
  for (uint32_t i = 0; i < 3; ++i) {
    int32_t label = 0;
    int16_t weight = 0;
    std::byte* const places[] = {reinterpret_cast<std::byte*>(&label),
                                 reinterpret_cast<std::byte*>(&weight)};
    examples.write(0, i, places);
    EXPECT_EQ(weight, labels[i] == 1 ? 7 : 5);
  }
}

}  // namespace
}  // namespace mantissa
