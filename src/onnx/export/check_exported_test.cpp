// Rules of ONNX Runtime: one model that keeps them, and one fault after the other in it.
#include "onnx/export/check_exported.h"

#include <gtest/gtest.h>

#include <limits>

#include "onnx/export/builder.h"

namespace mantissa::onnx {
namespace {

struct Numbers {
  float input = 0.5F, weights = 0.25F, bias = 0.125F;
  ElementType weights_type = ElementType::kInt8, zero_type = ElementType::kInt8;
  std::vector<int64_t> zero_dims = {};
  int64_t padding = 0, opset = 21;
  std::string pool = "pool";
};

// x -> bytes -> Conv with a bias -> MaxPool.
ModelData model_of(const Numbers& n) {
  ExportBuilder to;
  to.graph.inputs.push_back(
      {"x", ElementType::kFloat, true, {{-1, "N"}, {1, ""}, {4, ""}, {4, ""}}});
  const std::string scale = to.scalar(n.input, "scale");
  to.add("QuantizeLinear", "bytes", {"x", scale, to.byte(0)});
  to.add("DequantizeLinear", "real", {"bytes", scale, to.byte(0)});
  to.numbers<uint8_t>("w", n.weights_type, {1, 1, 1, 1}, {3});
  to.add("DequantizeLinear", "w/real",
         {"w", to.scalar(n.weights, "w/scale"),
          to.numbers<uint8_t>("w/zero", n.zero_type, n.zero_dims, {0})});
  to.numbers<int32_t>("b", ElementType::kInt32, {1}, {7});
  to.add("DequantizeLinear", "b/real", {"b", to.scalar(n.bias, "b/scale")});
  to.add("Conv", "conv", {"real", "w/real", "b/real"});
  to.add("MaxPool", n.pool, {"conv"},
         {{"kernel_shape", std::vector<int64_t>{2, 2}},
          {"pads", std::vector<int64_t>{n.padding, 0, 0, 0}}});
  ModelData model;
  model.opsets = {{"", n.opset}};
  model.graph = std::move(to.graph);
  return model;
}

std::string fault(const Numbers& numbers) {
  const Status status = check_exported(model_of(numbers));
  return status.ok() ? "" : status.error().message;
}

bool says(const Numbers& numbers, const std::string& text) {
  return fault(numbers).find(text) != std::string::npos;
}

TEST(CheckExported, AcceptsWhatKeepsTheRules) { EXPECT_EQ(fault({}), ""); }

TEST(CheckExported, ScalesAreNormalPositiveNumbers) {
  for (const float scale : {0.0F, -0.5F, 0x1p-130F, std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(says({.input = scale}, "'bytes' has a scale that float32")) << scale;
    EXPECT_TRUE(says({.weights = scale}, "'w/real' has a scale that float32")) << scale;
  }
}

TEST(CheckExported, ABiasIsInUnitsOfInputTimesWeight) {
  EXPECT_TRUE(says({.bias = 0.25F}, "'conv' has a bias that is not in units"));
  // In 4 bits the layer is computed in float.
  EXPECT_EQ(
      fault({.bias = 0.25F, .weights_type = ElementType::kInt4, .zero_type = ElementType::kInt4}),
      "");
}

TEST(CheckExported, ZeroPointsHaveTypeAndShape) {
  EXPECT_TRUE(says({.zero_type = ElementType::kUint8}, "zero point of another type"));
  EXPECT_TRUE(says({.zero_dims = {1}}, "zero point of another shape"));
}

TEST(CheckExported, WindowsNamesAndTypes) {
  EXPECT_TRUE(says({.padding = 2}, "'pool' has padding as large as its windows"));
  EXPECT_TRUE(says({.pool = "byte_0"}, "'byte_0' is the name of two tensors"));
  const Numbers four{.weights_type = ElementType::kInt4, .zero_type = ElementType::kInt4};
  EXPECT_EQ(fault(four), "");
  Numbers old = four;
  old.opset = 17;
  EXPECT_TRUE(says(old, "operator set 21"));
}

TEST(CheckExported, NothingIsReadBeforeItIsMade) {
  ModelData model = model_of({});
  std::swap(model.graph.nodes.front(), model.graph.nodes.back());
  EXPECT_FALSE(check_exported(model).ok());
}

}  // namespace
}  // namespace mantissa::onnx
