// Imported networks over three axes, built in memory, compute what ONNX's description says, in fp32.
// tests/long/onnx/onnx_signals compares exports of PyTorch.
#include <gtest/gtest.h>

#include "tests/onnx/onnx_place_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kOfVolume = 3;  // channels
const Wholes kVolume = {6, 7, 5};

Model volume_model() {
  return Model(kReal, {kBatch, kOfVolume, kVolume[0], kVolume[1], kVolume[2]});
}

// Strides, padding, dilation and groups of all axes, both pools, a residual sum and a gate.
TEST(OnnxVolumes, ConvolutionsNormsAndPools) {
  Model m = volume_model();
  std::string v = m.conv("conv1", "x", {8, kOfVolume, 3, 3, 3}, {1, 1, 1, 1, 1, 1});
  v = m.add("Relu", "relu1", {m.norm("norm1", v, 8)});
  const std::string skip = v;
  v = m.conv("conv2", v, {8, 1, 3, 3, 1}, {2, 1, 0, 2, 1, 0},
             {{"group", int64_t{8}}, {"dilations", Wholes{2, 1, 1}}});
  v = m.add("Add", "add", {skip, v});
  v = m.add("Mul", "scaled", {v, m.weights("gains", {8, 1, 1, 1}, 0.5, 1.5)});
  const std::string squeezed = m.add("GlobalAveragePool", "squeeze", {v});
  v = m.add("Mul", "gated", {v, m.add("Sigmoid", "gate", {squeezed})});
  v = m.add("MaxPool", "pool", {v}, {{"kernel_shape", Wholes{3, 2, 2}},
                                     {"strides", Wholes{2, 1, 2}},
                                     {"pads", Wholes{1, 1, 0, 1, 1, 0}}});
  v = m.conv("conv3", v, {6, 4, 2, 3, 1}, {0, 1, 0, 1, 1, 0},
             {{"group", int64_t{2}}, {"strides", Wholes{1, 2, 2}}});
  v = m.add("AveragePool", "average", {v}, {{"kernel_shape", Wholes{2, 3, 1}},
                                            {"pads", Wholes{0, 1, 0, 0, 1, 0}}});
  const std::string mean = m.add("GlobalMaxPool", "largest", {v});
  const ImportedNetwork network =
      expect_signal(m, head(m, m.add("Flatten", "flat", {mean}), 6), kVolume, kOfVolume);
  EXPECT_EQ(count_of(network, "convolution"), 3 + 1) << "and the constant factors";
  EXPECT_EQ(count_of(network, "depth_taps"), 3);
  EXPECT_EQ(count_of(network, "overlapping_max_pool"), 2) << "of images, and of the depth";
  EXPECT_EQ(count_of(network, "average_pool"), 2);
  EXPECT_EQ(network.graph.values[network.graph.inputs[0]].shape, (Shape{6, 7, 5, kOfVolume}));
}

// A depth that is padded by a node of its own and by auto_pad, joined channels, and all places
// flattened.
TEST(OnnxVolumes, PaddedDepthAndFlattenedPlaces) {
  Model m = volume_model();
  std::string v = m.add("Pad", "pad", {"x", m.wholes("pads", {0, 0, 2, 0, 1, 0, 0, 0, 0, 0})});
  const std::string left = m.conv("left", v, {3, kOfVolume, 3, 1, 1}, {0, 0, 0, 0, 0, 0});
  const std::string right =
      m.add("Conv", "right", {v, m.weights("right.weight", {2, kOfVolume, 2, 3, 2})},
            {{"auto_pad", "SAME_UPPER"}, {"strides", Wholes{1, 1, 1}}});
  const std::string cut = m.conv("cut", right, {2, 2, 3, 1, 1}, {0, 0, 0, 0, 0, 0});
  v = m.add("Concat", "both", {left, cut}, {{"axis", int64_t{1}}});
  v = m.add("MaxPool", "pool", {v}, {{"kernel_shape", Wholes{2, 4, 2}},
                                     {"strides", Wholes{2, 4, 2}}});
  v = m.add("Flatten", "flat", {v});
  const ImportedNetwork network = expect_signal(m, head(m, v, 5 * 3 * 1 * 3), kVolume, kOfVolume);
  EXPECT_EQ(count_of(network, "depth_taps"), 1 + 3);
}

TEST(OnnxVolumes, ALabelForEachPlace) {
  Model m = volume_model();
  std::string v = m.add("Relu", "relu", {m.conv("conv1", "x", {8, kOfVolume, 3, 3, 3},
                                                {1, 1, 1, 1, 1, 1})});
  v = m.conv("conv2", v, {4, 8, 1, 1, 1}, {0, 0, 0, 0, 0, 0});
  const auto network = import_sequences(m.finish(v));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->graph.values[network->graph.inputs[1]].shape, (Shape{6, 7, 5}));
  EXPECT_EQ(network->graph.values[network->graph.outputs[0]].shape, (Shape{6, 7, 5, 4}));
  EXPECT_EQ(count_of(*network, "linear"), 0) << "the loss reads the convolution's own sums";
}

// Nodes without a form for volumes, and settings that kernels lack, are named.
TEST(OnnxVolumes, OthersAreRefusedByName) {
  const auto expect_refusal = [](const char* op, std::vector<NodeAttribute> attributes,
                                 const Wholes& weights, const std::string& reason) {
    Model m = volume_model();
    const std::string v = m.add(op, "one", {"x", m.weights("w", weights)}, std::move(attributes));
    const auto network = import_sequences(m.finish(m.add("GlobalAveragePool", "mean", {v})));
    ASSERT_FALSE(network.ok());
    EXPECT_NE(network.error().message.find(reason), std::string::npos)
        << network.error().message;
  };
  expect_refusal("Conv", {{"dilations", Wholes{1, 1, 2}}}, {4, kOfVolume, 1, 2, 2},
                 "two dilations of height and width");
  expect_refusal("ConvTranspose", {}, {kOfVolume, 4, 2, 2, 2}, "[N, C, H, W]");
}

}  // namespace
}  // namespace mantissa::testing
