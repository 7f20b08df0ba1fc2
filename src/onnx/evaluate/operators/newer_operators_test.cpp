// Operators that are newer than Debian's test data, and some of ONNX Runtime's own domain.
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/evaluate/test_models.h"

namespace mantissa::onnx {
namespace {

constexpr int kUint8 = 2;
constexpr int64_t kNewestSet = 28;

std::vector<TensorData> computed(const std::string& graph, const Tensors& inputs) {
  const std::string bytes = model_message(graph, kNewestSet);
  const ModelData model = parse(bytes);
  ThreadPool pool(2);
  auto outputs = evaluate(model, inputs, pool);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? std::move(*outputs) : std::vector<TensorData>(4);
}

TEST(OnnxNewerOperators, CenterCropPadIsEvenWithOneMoreAtTheEnd) {
  for (const auto& [size, wanted] : {std::pair{int64_t{2}, std::vector<float>{2, 3}},
                                     {int64_t{8}, std::vector<float>{0, 1, 2, 3, 4, 5, 0, 0}}}) {
    const auto found =
        computed(node("CenterCropPad", {"x", "size"}, {"y"}) +
                     whole_numbers_tensor("size", {size}) + input("x", {5}) + output("y"),
                 {{"x", tensor({5})}});
    EXPECT_EQ(floats(found[0]), wanted);
  }
}

TEST(OnnxNewerOperators, TensorScatterGoesOnAtTheStartIfCircular) {
  const std::string circular =
      bytes_field(5, bytes_field(1, "mode") + bytes_field(4, "circular") + number_field(20, 3));
  const auto found = computed(node("TensorScatter", {"cache", "x", "at"}, {"y"}, circular) +
                                  whole_numbers_tensor("at", {2}) + input("cache", {1, 3, 1}) +
                                  input("x", {1, 2, 1}) + output("y"),
                              {{"cache", tensor({1, 3, 1})}, {"x", tensor({1, 2, 1}, 10)}});
  EXPECT_EQ(floats(found[0]), (std::vector<float>{11, 2, 10}));
}

// The same as its parts: products, softmax, products. Two queries' heads share keys.
TEST(OnnxNewerOperators, AttentionIsProductsAndSoftmax) {
  const std::string graph =
      node("Attention", {"q", "k", "v"}, {"y"}) + node("Expand", {"k", "shape"}, {"all_keys"}) +
      node("Expand", {"v", "shape"}, {"all_values"}) +
      node("Transpose", {"all_keys"}, {"turned"},
           bytes_field(
               5, bytes_field(1, "perm") + numbers_field(8, {0, 1, 3, 2}) + number_field(20, 7))) +
      node("MatMul", {"q", "turned"}, {"products"}) +
      node("Mul", {"products", "half"}, {"scores"}) + node("Softmax", {"scores"}, {"p"}) +
      node("MatMul", {"p", "all_values"}, {"z"}) + whole_numbers_tensor("shape", {1, 2, 3, 4}) +
      bytes_field(5, tensor_message("half", kFloat, {}, float_field(4, 0.5f))) +
      input("q", {1, 2, 2, 4}) + input("k", {1, 1, 3, 4}) + input("v", {1, 1, 3, 4}) + output("y") +
      output("z");
  TensorData q = tensor({1, 2, 2, 4}), k = tensor({1, 1, 3, 4}, -3);
  for (float& number : writable<float>(q)) number = std::sin(number);
  for (float& number : writable<float>(k)) number = std::cos(number);
  const auto found = computed(graph, {{"q", q}, {"k", k}, {"v", tensor({1, 1, 3, 4})}});
  const std::vector<float> y = floats(found[0]), z = floats(found[1]);
  ASSERT_EQ(y.size(), z.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], z[i], 1e-5);
}

// The first query sees the first key alone.
TEST(OnnxNewerOperators, CausalAttentionSeesNothingBehind) {
  const auto found =
      computed(node("Attention", {"q", "k", "v"}, {"y"}, integer_attribute("is_causal", 1)) +
                   input("q", {1, 1, 2, 1}) + input("k", {1, 1, 2, 1}) + input("v", {1, 1, 2, 1}) +
                   output("y"),
               {{"q", *allocate(ElementType::kFloat, {1, 1, 2, 1})},
                {"k", tensor({1, 1, 2, 1})},
                {"v", tensor({1, 1, 2, 1}, 4)}});
  EXPECT_EQ(floats(found[0]), (std::vector<float>{4, 4.5}));
}

TEST(OnnxNewerOperators, RotaryEmbeddingTurnsPairs) {
  const auto found =
      computed(node("RotaryEmbedding", {"x", "c", "s"}, {"y"}) + input("x", {1, 1, 1, 4}) +
                   input("c", {1, 1, 2}) + input("s", {1, 1, 2}) + output("y"),
               {{"x", tensor({1, 1, 1, 4})},
                {"c", *allocate(ElementType::kFloat, {1, 1, 2})},
                {"s", tensor({1, 1, 2}, 1)}});
  EXPECT_EQ(floats(found[0]), (std::vector<float>{-3, -8, 1, 4}));
}

// 32 weights of 4 bits in two blocks: number i less 8, times its block's scale.
TEST(OnnxNewerOperators, MatMulNBitsUnpacksBlocks) {
  TensorData weights = *allocate(ElementType::kUint8, {1, 2, 8});
  for (int64_t i = 0; i < 16; ++i) {
    writable<uint8_t>(weights)[i] = static_cast<uint8_t>((2 * i % 16) | (2 * i + 1) % 16 << 4);
  }
  TensorData x = *allocate(ElementType::kFloat, {1, 32});
  writable<float>(x)[3] = 1;
  writable<float>(x)[31] = 1;
  const std::string attributes = integer_attribute("K", 32) + integer_attribute("N", 1) +
                                 integer_attribute("bits", 4) + integer_attribute("block_size", 16);
  const auto found = computed(
      node("MatMulNBits", {"x", "w", "s"}, {"y"}, attributes + bytes_field(7, "com.microsoft")) +
          input("x", {1, 32}) + input("w", {1, 2, 8}, kUint8) + input("s", {2}) + output("y"),
      {{"x", x}, {"w", weights}, {"s", tensor({2}, 2)}});
  EXPECT_EQ(floats(found[0]), (std::vector<float>{(3 - 8) * 2 + (15 - 8) * 3}));
}

}  // namespace
}  // namespace mantissa::onnx
