// The form of weights in exported files.
#include "onnx/export/weights.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mantissa::onnx {
namespace {

// Weights of few bits as a frozen network has them: they fill 8.
LayerNumbers layer_of(int bits) {
  const int most = (1 << (bits - 1)) - 1, shift = 8 - bits;
  LayerNumbers layer{
      .weights = {static_cast<int8_t>(most << shift), 0, static_cast<int8_t>(-1 * (1 << shift))},
      .bias = {5},
      .scales = {0.01F},
      .turned = {false},
      .dims = {},
      .channels = 1};
  layer.most_weight = most << shift;
  return layer;
}

// The bias is in units of input times weight: integer kernels take it so.
TEST(Weights, AreShiftedOnlyInFourBits) {
  for (int bits = 2; bits <= 8; ++bits) {
    for (const auto target : {ExportTarget::kOnnxRuntime, ExportTarget::kPortable}) {
      const WeightsForm form = weights_form(layer_of(bits), target, 127);
      const bool is_int4 = bits <= 4 && target == ExportTarget::kPortable;
      EXPECT_EQ(form.type == ElementType::kInt4, is_int4) << bits;
      EXPECT_EQ(form.shift, is_int4 ? 8 - bits : 0) << bits;
    }
  }
}

TEST(Weights, AreUnsignedWhereSumsOfTwoProductsSaturate) {
  for (const auto target : {ExportTarget::kOnnxRuntime, ExportTarget::kPortable}) {
    EXPECT_EQ(weights_form(layer_of(6), target, 255).type, ElementType::kUint8);
    EXPECT_EQ(weights_form(layer_of(6), target, 127).type, ElementType::kInt8);
    EXPECT_EQ(weights_form(layer_of(6), target, 0).type, ElementType::kInt8);
  }
}

}  // namespace
}  // namespace mantissa::onnx
