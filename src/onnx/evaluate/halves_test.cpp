// float16 and bfloat16: each result is rounded once.
#include "onnx/evaluate/halves.h"

#include <gtest/gtest.h>

#include "onnx/evaluate/test_models.h"

namespace mantissa::onnx {
namespace {

constexpr int kFloat16 = 10;
constexpr int kBfloat16 = 16;

TensorData half_tensor(ElementType type, const std::vector<float>& list) {
  TensorData wide = *allocate(ElementType::kFloat, {std::ssize(list)});
  std::copy(list.begin(), list.end(), writable<float>(wide).begin());
  return *narrowed(wide, type);
}

TensorData result_of_model(const std::string& bytes, const Tensors& inputs, size_t i = 0) {
  const ModelData model = parse(bytes);
  ThreadPool pool(1);
  auto outputs = evaluate(model, inputs, pool);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? std::move((*outputs)[i]) : TensorData();
}

TEST(OnnxHalves, SumsAreRoundedToTheNearestTiesToEven) {
  for (const auto& [type, number, large] :
       {std::tuple(ElementType::kFloat16, kFloat16, 2048.0f),
        std::tuple(ElementType::kBfloat16, kBfloat16, 256.0f)}) {
    const std::string bytes =
        model_message(node("Add", {"x", "y"}, {"z"}) + input("x", {2}, number) +
                      input("y", {2}, number) + output("z", number));
    const TensorData z = result_of_model(
        bytes, {{"x", half_tensor(type, {large, large})}, {"y", half_tensor(type, {1, 3})}});
    EXPECT_EQ(z.type, type);
    EXPECT_EQ(floats(*widened(z)), (std::vector<float>{large, large + 4}));
  }
}

// The exact products are added, and the sum is rounded: 2048 + 1 + 1 is 2050.
TEST(OnnxHalves, NothingIsRoundedInsideAnOperator) {
  const std::string bytes =
      model_message(node("ReduceSum", {"x"}, {"y"}, integer_attribute("keepdims", 0)) +
                    input("x", {3}, kFloat16) + output("y", kFloat16));
  const TensorData y =
      result_of_model(bytes, {{"x", half_tensor(ElementType::kFloat16, {2048, 1, 1})}});
  EXPECT_EQ(floats(*widened(y)), (std::vector<float>{2050}));
}

TEST(OnnxHalves, TypesOfResultsAreTheSpecifications) {
  const std::string bytes = model_message(
      node("LayerNormalization", {"x", "x"}, {"y", "mean"}) +
      node("Greater", {"x", "y"}, {"larger"}) + node("Where", {"larger", "x", "y"}, {"z"}) +
      input("x", {2}, kFloat16) + output("z", kFloat16) + output("mean"));
  const TensorData x = half_tensor(ElementType::kFloat16, {1, 3});
  EXPECT_EQ(result_of_model(bytes, {{"x", x}}).type, ElementType::kFloat16);
  EXPECT_EQ(result_of_model(bytes, {{"x", x}}, 1).type, ElementType::kFloat);
}

}  // namespace
}  // namespace mantissa::onnx
