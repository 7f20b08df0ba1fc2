// Imported networks with convolutions over one axis, transposed convolutions and resizing, built in
// memory, compute what ONNX's description says, in fp32. tests/long/onnx/onnx_signals compares exports
// of PyTorch.
#include <gtest/gtest.h>

#include "tests/onnx/onnx_place_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kLong = 24, kIn = 6;

TEST(OnnxSignals, ConvolutionsNormsAndPools) {
  Model m(kReal, {kBatch, kIn, kLong});
  std::string v = m.conv("conv1", "x", {8, kIn, 5}, {2, 2}, {{"strides", Wholes{2}}});
  v = m.add("Relu", "relu1", {m.norm("norm1", v, 8)});
  const std::string skip = v;
  v = m.conv("conv2", v, {8, 1, 3}, {4, 0}, {{"group", int64_t{8}}, {"dilations", Wholes{2}}});
  v = m.add("LeakyRelu", "leaky", {v}, {{"alpha", 0.1F}});
  v = m.add("Add", "add", {skip, v});
  v = m.add("Mul", "scaled", {v, m.weights("gains", {8, 1}, 0.5, 1.5)});
  v = m.add("MaxPool", "pool", {v}, {{"kernel_shape", Wholes{3}},
                                     {"strides", Wholes{2}},
                                     {"pads", Wholes{1, 1}}});
  v = m.add("AveragePool", "average", {v}, {{"kernel_shape", Wholes{2}}, {"strides", Wholes{2}}});
  const std::string mean = m.add("GlobalAveragePool", "mean", {v});
  const ImportedNetwork network =
      expect_signal(m, head(m, m.add("Flatten", "flat", {mean}), 8), {kLong}, kIn);
  EXPECT_EQ(count_of(network, "convolution"), 3);
  EXPECT_EQ(network.graph.values[network.graph.inputs[0]].shape, (Shape{kLong, kIn}));
}

// A block of the first temporal networks: padding on both sides, of which the end is cut off.
TEST(OnnxSignals, CausalConvolutions) {
  Model m(kReal, {kBatch, kIn, kLong});
  std::string v = m.conv("conv1", "x", {8, kIn, 3}, {2, 2});
  v = m.add("Slice", "chomp1", {v, m.wholes("from", {0}), m.wholes("to", {-2}),
                                m.wholes("axis", {2})});
  v = m.add("Relu", "relu1", {v});
  v = m.add("Pad", "pad", {v, m.wholes("pads", {0, 0, 4, 0, 0, 0})});
  v = m.conv("conv2", v, {8, 8, 3}, {0, 0}, {{"dilations", Wholes{2}}});
  v = m.add("Gather", "last", {v, m.whole("place", -1)}, {{"axis", int64_t{2}}});
  const ImportedNetwork network = expect_signal(m, head(m, v, 8), {kLong}, kIn);
  EXPECT_EQ(count_of(network, "slice"), 1) << "one position; the other only leaves padding out";
}

// Channels last at first, joined channels, a mean over positions, all positions flattened.
TEST(OnnxSignals, OtherAxesAndBranches) {
  Model m(kReal, {kBatch, kLong, kIn});
  std::string v = m.add("Transpose", "turned", {"x"}, {{"perm", Wholes{0, 2, 1}}});
  const std::string left = m.conv("left", v, {4, kIn, 3}, {1, 1});
  const std::string right = m.conv("right", v, {6, kIn, 1}, {0, 0});
  v = m.add("Concat", "both", {left, right}, {{"axis", int64_t{1}}});
  v = m.add("ReduceMean", "mean", {v, m.wholes("axes", {-1})}, {{"keepdims", int64_t{0}}});
  expect_signal(m, head(m, v, 10), {kLong}, kIn, true);
  Model flat(kReal, {kBatch, kIn, kLong});
  v = flat.conv("conv", "x", {3, kIn, 4}, {0, 0}, {{"strides", Wholes{4}}});
  v = flat.add("Flatten", "flat", {v});
  expect_signal(flat, head(flat, v, 3 * kLong / 4), {kLong}, kIn);
}

TEST(OnnxSignals, ALabelForEachPosition) {
  Model m(kReal, {kBatch, kIn, kLong});
  std::string v = m.add("Relu", "relu", {m.conv("conv1", "x", {8, kIn, 3}, {1, 1})});
  v = m.conv("conv2", v, {4, 8, 3}, {1, 1});
  const ModelData& data = m.finish(v);
  const auto network = import_sequences(data);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->graph.values[network->graph.inputs[1]].shape, (Shape{kLong}));
  EXPECT_EQ(network->graph.values[network->graph.outputs[0]].shape, (Shape{kLong, 4}));
  EXPECT_EQ(count_of(*network, "linear"), 0) << "the loss reads the convolution's own sums";
  // The positions come first here.
  const std::vector<int16_t> examples = signal(kBatch * kLong * kIn);
  std::vector<float> x(examples.size());
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t t = 0; t < kLong; ++t) {
      for (int64_t c = 0; c < kIn; ++c) {
        x[(n * kIn + c) * kLong + t] =
            static_cast<float>(examples[(n * kLong + t) * kIn + c]) * 0x1p-12F;
      }
    }
  }
  ThreadPool pool(1);
  const auto expected =
      onnx::evaluate(data, {{"x", tensor_of("x", kReal, {kBatch, kIn, kLong}, std::move(x))}}, pool);
  auto run = ImportedRun::create(*network, kBatch, false);
  ASSERT_TRUE(run.ok() && expected.ok());
  const auto logits = (*run)->logits(examples);
  ASSERT_TRUE(logits.ok());
  const auto wanted = onnx::numbers<float>((*expected)[0]);
  for (int64_t i = 0; i < std::ssize(*logits); ++i) {
    const int64_t k = i % 4, t = i / 4 % kLong, n = i / 4 / kLong;
    EXPECT_NEAR((*logits)[i], wanted[(n * 4 + k) * kLong + t], 1e-4);
  }
}

// Pictures of more channels than pixels have are numbers.
TEST(OnnxSignals, ManyChannelsAndUpsampling) {
  Model m(kReal, {kBatch, kIn, 6, 5});
  std::string v = m.add("Relu", "relu1", {m.conv("conv1", "x", {8, kIn, 3, 3}, {1, 1, 1, 1})});
  v = m.add("ConvTranspose", "up",
            {v, m.weights("up.weight", {8, 7, 3, 3}), m.weights("up.b", {7})},
            {{"strides", Wholes{2, 2}}, {"pads", Wholes{1, 1, 1, 1}},
             {"output_padding", Wholes{1, 1}}});
  v = m.add("Relu", "relu2", {v});
  v = m.add("Resize", "nearest", {v, "", m.numbers("scales", {4}, {1, 1, 2, 3})},
            {{"mode", "nearest"},
             {"coordinate_transformation_mode", "asymmetric"},
             {"nearest_mode", "floor"}});
  v = m.conv("conv2", v, {6, 7, 3, 3}, {1, 1, 1, 1}, {{"strides", Wholes{3, 3}}});
  v = m.add("Resize", "linear", {v, "", m.numbers("scales2", {4}, {1, 1, 2, 2})},
            {{"mode", "linear"}, {"coordinate_transformation_mode", "half_pixel"}});
  v = m.add("Resize", "corners", {v, "", "", m.wholes("sizes", {kBatch, 6, 7, 11})},
            {{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}});
  const ImportedNetwork network = expect_signal(m, classify(m, v, 6), {6, 5}, kIn);
  EXPECT_EQ(count_of(network, "transposed_convolution"), 1);
  EXPECT_EQ(count_of(network, "upsample"), 1);
  EXPECT_EQ(count_of(network, "bilinear_resize"), 2);
}

// In groups, and of each channel alone, with a softmax over the channels and one over the places.
TEST(OnnxSignals, TransposedInGroupsAndSoftmax) {
  Model m(kReal, {kBatch, kIn, 6, 5});
  std::string v = m.add("Relu", "relu1", {m.conv("conv1", "x", {8, kIn, 3, 3}, {1, 1, 1, 1})});
  v = m.add("ConvTranspose", "up1",
            {v, m.weights("up1.weight", {8, 3, 2, 2}), m.weights("up1.b", {12})},
            {{"strides", Wholes{2, 2}}, {"group", int64_t{4}}});
  const std::string shares = m.add("Softmax", "shares", {v}, {{"axis", int64_t{1}}});
  v = m.add("Mul", "weighted", {v, shares});
  v = m.add("ConvTranspose", "up2", {v, m.weights("up2.weight", {12, 1, 3, 3})},
            {{"strides", Wholes{1, 1}}, {"pads", Wholes{1, 1, 1, 1}}, {"group", int64_t{12}}});
  const std::string across = m.add("Softmax", "across", {v}, {{"axis", int64_t{-1}}});
  v = m.add("Add", "sum", {v, across});
  const ImportedNetwork network = expect_signal(m, classify(m, v, 12), {6, 5}, kIn);
  EXPECT_EQ(count_of(network, "transposed_convolution"), 2);
  EXPECT_EQ(count_of(network, "softmax"), 2);
}

// Positions of a sequence of measurements that do not follow each other, and several that do.
TEST(OnnxSignals, SomePositions) {
  Model m(kReal, {kBatch, kIn, kLong});
  std::string v = m.add("Relu", "relu", {m.conv("conv1", "x", {8, kIn, 3}, {1, 1})});
  v = m.add("Gather", "some", {v, m.wholes("places", {7, 0, -1, 7, 3, 2})},
            {{"axis", int64_t{2}}});
  v = m.add("Slice", "middle",
            {v, m.wholes("from", {1}), m.wholes("to", {5}), m.wholes("axis", {2})});
  const auto spread = [&](const std::string& name, const Wholes& places) {
    const auto count = std::ssize(places);
    return m.add("Expand", name, {m.wholes(name + ".list", places),
                                  m.wholes(name + ".dims", {kBatch, 8, count})});
  };
  v = m.add("GatherElements", "again", {v, spread("twice", {3, 0, 3})}, {{"axis", int64_t{2}}});
  const std::string zeros =
      m.add("ConstantOfShape", "zeros", {m.wholes("zero_dims", {kBatch, 8, 6})});
  v = m.add("ScatterElements", "put", {zeros, spread("to", {5, 0, 2}), v},
            {{"axis", int64_t{-1}}});
  v = m.add("GlobalAveragePool", "mean", {m.conv("conv2", v, {8, 8, 3}, {1, 1})});
  const ImportedNetwork network =
      expect_signal(m, head(m, m.add("Flatten", "flat", {v}), 8), {kLong}, kIn);
  EXPECT_EQ(count_of(network, "gather_rows"), 3);
  EXPECT_EQ(count_of(network, "scatter_rows"), 1);
}

TEST(OnnxSignals, EveryFewPositions) {
  struct Case {
    int64_t from, to, step, count;
  };
  for (const Case& each : {Case{0, INT64_MAX, 2, 12}, Case{1, -2, 5, 5}, Case{-1, INT64_MIN, -1, 24},
                           Case{20, 3, -3, 6}, Case{0, INT64_MAX, INT64_MAX, 1}}) {
    Model m(kReal, {kBatch, kIn, kLong});
    std::string v = m.add("Relu", "relu", {m.conv("conv1", "x", {8, kIn, 3}, {1, 1})});
    v = m.add("Slice", "some", {v, m.wholes("from", {each.from}), m.wholes("to", {each.to}),
                                m.wholes("axis", {2}), m.wholes("step", {each.step})});
    v = m.add("Flatten", "flat", {v});
    const ImportedNetwork network =
        expect_signal(m, head(m, v, 8 * each.count), {kLong}, kIn);
    EXPECT_EQ(count_of(network, each.count > 1 ? "gather_rows" : "slice"), 1);
  }
  Model none(kReal, {kBatch, kIn, kLong});
  std::string v = none.conv("conv1", "x", {8, kIn, 3}, {1, 1});
  v = none.add("Slice", "some", {v, none.wholes("from", {0}), none.wholes("to", {9}),
                                 none.wholes("axis", {2}), none.wholes("step", {0})});
  EXPECT_NE(refusal(none, v).find("a step of 0"), std::string::npos);
}

// Nodes before the first layer; the channels may be last there.
TEST(OnnxSignals, FunctionsBeforeTheFirstLayer) {
  for (const char* op : {"Relu", "Tanh", "Mul", "Add"}) {
    for (const bool channels_last : {false, true}) {
      Model m(kReal, channels_last ? Wholes{kBatch, kLong, kIn} : Wholes{kBatch, kIn, kLong});
      std::vector<std::string> inputs = {"x"};
      const bool has_constant = op == std::string("Mul") || op == std::string("Add");
      if (has_constant) inputs.insert(inputs.begin(), m.number("number", 1.5F));
      std::string v = m.add(op, "first", inputs);
      if (channels_last) v = m.add("Transpose", "turned", {v}, {{"perm", Wholes{0, 2, 1}}});
      v = m.add("Relu", "relu", {m.conv("conv1", v, {8, kIn, 3}, {1, 1})});
      v = m.add("Flatten", "flat", {m.add("GlobalAveragePool", "mean", {v})});
      expect_signal(m, head(m, v, 8), {kLong}, kIn, channels_last);
    }
  }
}

// Norms as PyTorch exports them, and gates of channels.
TEST(OnnxSignals, NormsAndPartsOfChannels) {
  Model m(kReal, {kBatch, kIn, kLong});
  std::string v = m.conv("conv1", "x", {8, kIn, 3}, {1, 1});
  v = m.add("Reshape", "groups", {v, m.wholes("in groups", {0, 2, -1})});
  v = m.add("InstanceNormalization", "group norm",
            {v, m.numbers("ones", {2}, {1, 1}), m.numbers("zeros", {2}, {0, 0})});
  v = m.add("Reshape", "back", {v, m.wholes("whole", {kBatch, 8, kLong})});
  v = m.add("Mul", "gained", {v, m.weights("gn.weight", {8, 1}, 0.5, 1.5)});
  v = m.add("Add", "moved", {v, m.weights("gn.bias", {8, 1})});
  v = m.add("Tanh", "tanh", {v});
  const std::string skip = v;
  const auto parts = m.split("halves", {v}, {"left", "right"}, 1);
  v = m.add("Mul", "gated", {parts[0], m.add("Sigmoid", "gate", {parts[1]})});
  v = m.add("InstanceNormalization", "own norm",
            {v, m.weights("in.weight", {4}, 0.5, 1.5), m.weights("in.bias", {4})});
  const std::string some = m.add("Slice", "some", {skip, m.wholes("from", {2}), m.wholes("to", {6}),
                                                   m.wholes("axis", {1})});
  v = m.add("Add", "sum", {v, some});
  v = m.add("LayerNormalization", "all", {v, m.numbers("g", {4, kLong}, std::vector<float>(96, 2)),
                                          m.numbers("b", {4, kLong}, std::vector<float>(96, 1))},
            {{"axis", int64_t{1}}});
  v = m.conv("conv2", m.add("Relu", "relu", {v}), {8, 4, 3}, {1, 1});
  v = m.add("Flatten", "flat", {m.add("GlobalAveragePool", "mean", {v})});
  const ImportedNetwork network = expect_signal(m, head(m, v, 8), {kLong}, kIn);
  EXPECT_EQ(count_of(network, "group_norm"), 3);
  EXPECT_EQ(count_of(network, "convolution"), 2) << "the norm takes its factors in";
  EXPECT_EQ(count_of(network, "slice"), 3);
}

// As ONNX Runtime's quantiser writes them: before and behind each layer, and in the place of a Relu.
TEST(OnnxSignals, QuantisedPairs) {
  Model m(kReal, {kBatch, kIn, kLong});
  const auto pair = [&](const std::string& name, const std::string& from, float scale, uint8_t zero) {
    m.number(name + ".scale", scale);
    m.tensor(tensor_of(name + ".zero", ElementType::kUint8, {}, std::vector<uint8_t>{zero}));
    m.add("QuantizeLinear", name + ".whole", {from, name + ".scale", name + ".zero"});
    return m.add("DequantizeLinear", name,
                 {name + ".whole", name + ".scale", name + ".zero"});
  };
  std::string v = pair("in", "x", 0.017F, 128);
  v = pair("first", m.conv("conv1", v, {8, kIn, 3}, {1, 1}), 0.011F, 0);
  v = pair("tanh", m.add("Tanh", "t", {v}), 0.008F, 128);
  v = m.conv("conv2", v, {8, 8, 3}, {1, 1});
  v = pair("second", v, 0.02F, 128);
  v = m.add("Flatten", "flat", {v});
  const std::string y = head(m, v, 8 * kLong);
  const auto network = import_sequences(m.finish(y));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(count_of(*network, "quantise"), 4);
  const std::vector<int16_t> examples = signal(kBatch * kLong * kIn);
  auto run = ImportedRun::create(*network, kBatch, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto logits = (*run)->logits(examples);
  ASSERT_TRUE(logits.ok());
  std::vector<float> x(examples.size());
  for (int64_t i = 0; i < std::ssize(x); ++i) {
    const int64_t c = i % kIn, t = i / kIn % kLong, n = i / kIn / kLong;
    x[(n * kIn + c) * kLong + t] = static_cast<float>(examples[i]) * 0x1p-12F;
  }
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(
      m.finish(y), {{"x", tensor_of("x", kReal, {kBatch, kIn, kLong}, std::move(x))}}, pool);
  ASSERT_TRUE(expected.ok());
  const auto wanted = onnx::numbers<float>((*expected)[0]);
  float largest = 0;
  for (const float number : wanted) largest = std::max(largest, std::abs(number));
  for (size_t i = 0; i < logits->size(); ++i) {
    EXPECT_NEAR((*logits)[i], wanted[i], 0.02 * largest);
  }
}

TEST(OnnxSignals, TransposedOverOneAxis) {
  Model m(kReal, {kBatch, kIn, kLong});
  std::string v = m.add("ConvTranspose", "up",
                        {"x", m.weights("up.weight", {kIn, 5, 4}), m.weights("up.b", {5})},
                        {{"strides", Wholes{2}}, {"pads", Wholes{1, 1}}});
  v = m.add("Resize", "nearest", {v, "", m.numbers("scales", {3}, {1, 1, 2})},
            {{"mode", "nearest"},
             {"coordinate_transformation_mode", "asymmetric"},
             {"nearest_mode", "floor"}});
  v = m.add("GlobalAveragePool", "mean", {v});
  expect_signal(m, head(m, m.add("Flatten", "flat", {v}), 5), {kLong}, kIn);
}

TEST(OnnxSignals, RefusalsSayWhy) {
  const auto refused = [](const char* mode, const char* coordinates, std::vector<float> scales) {
    Model m(kReal, {kBatch, kIn, 6, 5});
    const std::string v =
        m.add("Resize", "resize", {"x", "", m.numbers("scales", {4}, std::move(scales))},
              {{"mode", mode}, {"coordinate_transformation_mode", coordinates}});
    return refusal(m, classify(m, v, kIn));
  };
  EXPECT_NE(refused("cubic", "half_pixel", {1, 1, 2, 2}).find("resizes by 'cubic'"),
            std::string::npos);
  EXPECT_NE(refused("linear", "asymmetric", {1, 1, 2, 2}).find("(asymmetric)"),
            std::string::npos);
  EXPECT_NE(refused("nearest", "asymmetric", {1, 1, 1.5, 2}).find("other than whole factors"),
            std::string::npos);
  Model groups(kReal, {kBatch, kIn, 6, 5});
  const std::string v = groups.add(
      "ConvTranspose", "up", {"x", groups.weights("up.weight", {kIn, 2, 2, 2})},
      {{"group", kIn + 1}, {"strides", Wholes{2, 2}}});
  EXPECT_NE(refusal(groups, classify(groups, v, 4)).find("groups of"), std::string::npos);
}

}  // namespace
}  // namespace mantissa::testing
