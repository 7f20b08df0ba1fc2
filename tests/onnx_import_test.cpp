// Imported networks compute what ONNX's description says, built in memory and in fp32, and train.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "base/random.h"
#include "models/network_json.h"
#include "onnx/evaluate/evaluate.h"
#include "tests/imported.h"

namespace mantissa::testing {
namespace {

using onnx::AttributeData;
using onnx::ElementType;
using onnx::ImportedNetwork;
using onnx::ModelData;
using onnx::NodeAttribute;
using onnx::TensorData;

using Wholes = std::vector<int64_t>;

template <typename T>
TensorData tensor_of(const std::string& name, ElementType type, Wholes dims,
                     std::vector<T> numbers) {
  auto kept = std::make_shared<const std::vector<T>>(std::move(numbers));
  return {name, type, std::move(dims), std::as_bytes(std::span(*kept)), kept};
}

double uniform(const std::string& name, int64_t i) {
  const uint64_t bits = random_bits(std::hash<std::string>{}(name), RandomStream::kShuffle, 0,
                                    static_cast<uint64_t>(i));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// A model with an input "x" of [2, C, H, W], built node by node.
class Model {
 public:
  Model(int64_t channels, int64_t height, int64_t width)
      : channels_(channels), height_(height), width_(width) {
    model_.ir_version = 8;
    model_.opsets[""] = 17;
    model_.graph.name = "net";
    model_.graph.inputs.push_back({"x",
                                   ElementType::kFloat,
                                   true,
                                   {{kBatch, ""}, {channels, ""}, {height, ""}, {width, ""}}});
  }
  static constexpr int64_t kBatch = 2;

  // A constant of random numbers between the limits.
  std::string weights(const std::string& name, Wholes dims, double low = -0.5, double high = 0.5) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<float>(low + (high - low) * uniform(name, i)));
    }
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kFloat, std::move(dims), std::move(numbers)));
    return name;
  }
  std::string number(const std::string& name, float value) {
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kFloat, {}, std::vector<float>{value}));
    return name;
  }
  std::string wholes(const std::string& name, Wholes numbers) {
    const auto count = std::ssize(numbers);
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kInt64, {count}, std::move(numbers)));
    return name;
  }
  // Returns the node's output, which has the node's name.
  std::string add(const std::string& op, const std::string& name, std::vector<std::string> inputs,
                  std::vector<NodeAttribute> attributes = {}) {
    model_.graph.nodes.push_back({name, op, "", std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
  std::string conv(const std::string& name, const std::string& input, Wholes dims, Wholes pads,
                   std::vector<NodeAttribute> more = {}) {
    more.push_back({"pads", std::move(pads)});
    const int64_t channels = dims[0];
    return add(
        "Conv", name,
        {input, weights(name + ".weight", std::move(dims)), weights(name + ".b", {channels})},
        std::move(more));
  }
  std::string norm(const std::string& name, const std::string& input, int64_t channels,
                   float epsilon = 1e-5f) {
    return add(
        "BatchNormalization", name,
        {input, weights(name + ".weight", {channels}, 0.5, 1.5), weights(name + ".b", {channels}),
         weights(name + ".m", {channels}), weights(name + ".v", {channels}, 0.5, 2)},
        {{"epsilon", epsilon}});
  }
  const ModelData& finish(const std::string& output) {
    model_.graph.outputs = {{output, ElementType::kFloat, false, {}}};
    return model_;
  }

  std::vector<uint8_t> pixels() const {  // [N, H, W, C]
    std::vector<uint8_t> all(static_cast<size_t>(kBatch * channels_ * height_ * width_));
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<uint8_t>(uniform("pixels", static_cast<int64_t>(i)) * 255.99);
    }
    return all;
  }
  // What the model is given for these pixels.
  TensorData input(double mean, double deviation) const {
    const std::vector<uint8_t> from = pixels();
    std::vector<float> numbers(from.size());
    for (int64_t n = 0; n < kBatch; ++n) {
      for (int64_t i = 0; i < height_ * width_; ++i) {
        for (int64_t c = 0; c < channels_; ++c) {
          const double pixel = from[(n * height_ * width_ + i) * channels_ + c] / 255.0;
          numbers[(n * channels_ + c) * height_ * width_ + i] =
              static_cast<float>((pixel - mean) / deviation);
        }
      }
    }
    return tensor_of("x", ElementType::kFloat, {kBatch, channels_, height_, width_},
                     std::move(numbers));
  }

 private:
  ModelData model_;
  int64_t channels_, height_, width_;
};

constexpr double kMean = 0.43, kDeviation = 0.26;

Result<ImportedNetwork> imported(const ModelData& model) {
  return onnx::import_network(model, {.mean = {kMean}, .deviation = {kDeviation}, .output = ""});
}

// Imports the model, and compares its logits with those of a plain evaluation. The network's JSON
// is read back to the same network.
ImportedNetwork expect_same(Model& model, const std::string& output) {
  const ModelData& data = model.finish(output);
  auto network = imported(data);
  EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
  if (!network.ok()) return {};
  const auto again = parse_network(to_json(network->graph));
  EXPECT_TRUE(again.ok()) << (again.ok() ? "" : again.error().message);
  EXPECT_EQ(again.ok() ? to_json(*again) : "", to_json(network->graph));
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(data, {{"x", model.input(kMean, kDeviation)}}, pool);
  EXPECT_TRUE(expected.ok()) << (expected.ok() ? "" : expected.error().message);
  auto run = ImportedRun::create(*network, Model::kBatch, false);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
  if (!run.ok() || !expected.ok()) return {};
  const auto logits = (*run)->logits(model.pixels());
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
  if (!logits.ok()) return {};
  const TensorData& wanted = (*expected)[0];
  EXPECT_EQ(wanted.bytes.size(), logits->size() * sizeof(float));
  double largest = 0, difference = 0;
  for (size_t i = 0; i < logits->size(); ++i) {
    float number = 0;
    std::memcpy(&number, wanted.bytes.data() + i * sizeof(float), sizeof(float));
    largest = std::max<double>(largest, std::abs(number));
    difference = std::max<double>(difference, std::abs(number - (*logits)[i]));
  }
  EXPECT_GT(largest, 1e-3);
  EXPECT_LE(difference, 2e-5 * largest) << to_string(network->graph);
  return std::move(*network);
}

std::vector<std::string> ops_of(const ImportedNetwork& network) {
  std::vector<std::string> names;
  for (const Node& node : network.graph.nodes) names.emplace_back(node.op->name);
  return names;
}

int64_t count_of(const ImportedNetwork& network, const std::string& op) {
  const auto names = ops_of(network);
  return std::count(names.begin(), names.end(), op);
}

// The mean over the image and a linear layer.
std::string classify(Model& model, const std::string& value, int64_t channels) {
  const std::string mean = model.add("GlobalAveragePool", "mean", {value});
  const std::string flat = model.add("Flatten", "flat", {mean});
  return model.add("Gemm", "fc",
                   {flat, model.weights("fc.weight", {5, channels}), model.weights("fc.b", {5})},
                   {{"transB", int64_t{1}}});
}

TEST(OnnxImport, ConvolutionsOfAllKindsAndTheirPadding) {
  Model m(3, 9, 11);
  std::string v = m.conv("stem", "x", {8, 3, 3, 3}, {1, 1, 1, 1}, {{"strides", Wholes{2, 1}}});
  v = m.add("Relu", "r1", {v});
  v = m.conv("wide", v, {6, 8, 1, 7}, {0, 3, 0, 3});
  v = m.conv("grouped", v, {6, 3, 3, 3}, {2, 2, 2, 2},
             {{"group", int64_t{2}}, {"dilations", Wholes{2, 2}}});
  v = m.conv("depthwise", v, {6, 1, 3, 3}, {0, 1, 1, 2}, {{"group", int64_t{6}}});
  v = m.add("Conv", "same", {v, m.weights("same.w", {4, 6, 4, 3})},
            {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Wholes{2, 2}}});
  const ImportedNetwork network = expect_same(m, classify(m, v, 4));
  EXPECT_EQ(count_of(network, "pad"), 2);
  EXPECT_EQ(network.parameters[0].name, "stem.weights");
}

TEST(OnnxImport, BatchNormsWithAnyEpsilonInPlaceOfTheFirstLayerToo) {
  Model m(3, 8, 8);
  std::string v = m.norm("first", "x", 3);
  v = m.conv("conv", v, {8, 3, 3, 3}, {1, 1, 1, 1});
  v = m.norm("n1", v, 8, 1e-3f);
  v = m.add("Clip", "six", {v, m.number("low", 0), m.number("high", 6)});
  v = m.norm("n2", v, 8, 0.01f);
  expect_same(m, classify(m, v, 8));
}

TEST(OnnxImport, FunctionsAndTheirSpelledOutForms) {
  Model m(1, 8, 8);
  std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
  v = m.add("LeakyRelu", "leaky", {v}, {{"alpha", 0.125f}});
  v = m.conv("c2", v, {6, 6, 1, 1}, {0, 0, 0, 0});
  v = m.add("HardSwish", "hs", {v});
  v = m.add("Sigmoid", "sigmoid", {v});
  v = m.add("Tanh", "tanh", {v});
  // x * clip(x + 3, 0, 6) / 6
  const std::string plus = m.add("Add", "plus", {v, m.number("three", 3)});
  const std::string clipped =
      m.add("Clip", "clipped", {plus, m.number("zero", 0), m.number("six", 6)});
  const std::string product = m.add("Mul", "product", {v, clipped});
  v = m.add("Div", "swish", {product, m.number("by", 6)});
  // x * HardSigmoid(x), and HardSigmoid of another slope behind a convolution.
  const std::string gate = m.add("HardSigmoid", "gate", {v}, {{"alpha", 1.0f / 6}});
  v = m.add("Mul", "swish2", {gate, v});
  v = m.conv("c3", v, {6, 6, 1, 1}, {0, 0, 0, 0});
  v = m.add("HardSigmoid", "fifth", {v}, {{"alpha", 0.2f}, {"beta", 0.4f}});
  const std::string less = m.add("Mul", "less", {v, m.number("slope", 0.25f)});
  v = m.add("Max", "leaky2", {less, v});
  const ImportedNetwork network = expect_same(m, classify(m, v, 6));
  EXPECT_EQ(count_of(network, "hard_swish"), 3);
  EXPECT_EQ(count_of(network, "hard_sigmoid"), 1);
  EXPECT_EQ(count_of(network, "leaky_relu"), 2);
  EXPECT_EQ(count_of(network, "convolution"), 3);
}

TEST(OnnxImport, Pools) {
  Model m(2, 15, 13);
  std::string v = m.conv("c1", "x", {4, 2, 3, 3}, {1, 1, 1, 1});
  v = m.add(
      "MaxPool", "m1", {v},
      {{"kernel_shape", Wholes{3, 3}}, {"strides", Wholes{2, 2}}, {"pads", Wholes{1, 1, 1, 1}}});
  v = m.add("AveragePool", "a1", {v},
            {{"kernel_shape", Wholes{3, 2}}, {"pads", Wholes{1, 0, 1, 0}}});
  v = m.add("AveragePool", "a2", {v},
            {{"kernel_shape", Wholes{2, 2}},
             {"pads", Wholes{0, 0, 1, 1}},
             {"count_include_pad", int64_t{1}}});
  v = m.add("MaxPool", "m2", {v},
            {{"kernel_shape", Wholes{3, 2}}, {"strides", Wholes{2, 2}}, {"ceil_mode", int64_t{1}}});
  v = m.add("Relu", "r", {v});
  v = m.add("MaxPool", "m3", {v}, {{"kernel_shape", Wholes{2, 2}}, {"pads", Wholes{0, 0, 1, 1}}});
  v = m.add("MaxPool", "m4", {v}, {{"kernel_shape", Wholes{2, 2}}, {"strides", Wholes{2, 2}}});
  const std::string mean =
      m.add("ReduceMean", "mean", {v}, {{"axes", Wholes{-1, -2}}, {"keepdims", int64_t{0}}});
  v = m.add("MatMul", "mm", {mean, m.weights("w", {4, 3})});
  v = m.add("Add", "fc", {v, m.weights("b", {3})});
  const ImportedNetwork network = expect_same(m, v);
  EXPECT_EQ(network.parameters.back().shape, (Shape{3}));  // the bias is the layer's
}

TEST(OnnxImport, FlattenedPixelsMeetTheirWeights) {
  for (const bool reshapes : {false, true}) {
    Model m(3, 4, 5);
    std::string v = m.conv("c1", "x", {6, 3, 3, 3}, {1, 1, 1, 1});
    v = m.add("Relu", "r", {v});
    v = reshapes ? m.add("Reshape", "flat", {v, m.wholes("shape", {Model::kBatch, -1})})
                 : m.add("Flatten", "flat", {v});
    v = m.add("Gemm", "f1", {v, m.weights("f1.weight", {120, 7}), m.weights("f1.b", {7})});
    v = m.add("Relu", "r2", {v});
    v = m.add("Dropout", "drop", {v});
    v = m.add("Gemm", "f2", {v, m.weights("f2.weight", {3, 7})},
              {{"transB", int64_t{1}}, {"alpha", 0.5f}});
    expect_same(m, v);
  }
}

TEST(OnnxImport, ResidualsConcatenationsAndGates) {
  Model m(3, 8, 8);
  const std::string a = m.conv("c1", "x", {8, 3, 3, 3}, {1, 1, 1, 1});
  std::string g = m.add("GlobalAveragePool", "g0", {a});
  g = m.conv("squeeze", g, {4, 8, 1, 1}, {0, 0, 0, 0});
  g = m.add("Relu", "g1", {g});
  g = m.conv("excite", g, {8, 4, 1, 1}, {0, 0, 0, 0});
  g = m.add("Sigmoid", "g2", {g});
  const std::string gated = m.add("Mul", "gated", {g, a});
  const std::string sum = m.add("Add", "sum", {gated, a});
  const std::string silu = m.add("Mul", "silu", {sum, m.add("Sigmoid", "s", {sum})});
  const std::string both = m.add("Concat", "both", {silu, a}, {{"axis", int64_t{1}}});
  expect_same(m, classify(m, both, 16));
}

TEST(OnnxImport, ChannelsAreShuffledAndTransposesVanish) {
  Model m(1, 6, 4);
  std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
  v = m.add("Reshape", "split", {v, m.wholes("s1", {Model::kBatch, 2, 3, 6, 4})});
  v = m.add("Transpose", "turn", {v}, {{"perm", Wholes{0, 2, 1, 3, 4}}});
  v = m.add("Reshape", "join", {v, m.wholes("s2", {Model::kBatch, 6, 6, 4})});
  v = m.conv("c2", v, {6, 2, 3, 3}, {1, 1, 1, 1}, {{"group", int64_t{3}}});
  v = m.add("Transpose", "last", {v}, {{"perm", Wholes{0, 2, 3, 1}}});
  v = m.add("Relu", "r", {v});
  v = m.add("Transpose", "first", {v}, {{"perm", Wholes{0, 3, 1, 2}}});
  const ImportedNetwork network = expect_same(m, classify(m, v, 6));
  EXPECT_EQ(count_of(network, "channel_shuffle"), 1);
  EXPECT_EQ(count_of(network, "reshape"), 0);
}

TEST(OnnxImport, FactorsAndSummandsPerChannel) {
  Model m(3, 6, 6);
  std::string v = m.add("Sub", "centre", {"x", m.weights("means", {1, 3, 1, 1})});
  v = m.conv("c1", v, {4, 3, 3, 3}, {0, 0, 0, 0});
  v = m.add("Mul", "times", {v, m.weights("gamma", {4, 1, 1}, 0.5, 2)});
  v = m.add("Add", "plus", {v, m.weights("beta", {1, 4, 1, 1})});
  v = m.add("Relu", "r", {v});
  v = m.add("Div", "by", {v, m.weights("divisors", {4, 1, 1}, 1, 3)});
  const ImportedNetwork network = expect_same(m, classify(m, v, 4));
  EXPECT_EQ(count_of(network, "convolution"), 3);  // those behind c1 are in its weights
}

TEST(OnnxImport, TheSoftmaxAtTheEndAndOtherOutputsAreLeftOut) {
  Model m(1, 4, 4);
  std::string v = classify(m, m.conv("c1", "x", {4, 1, 3, 3}, {0, 0, 0, 0}), 4);
  m.add("Softmax", "soft", {v}, {{"axis", int64_t{1}}});
  m.add("LSTM", "unused", {"x"});
  const auto network = imported(m.finish("soft"));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->graph.classes(), 5);
  EXPECT_EQ(ops_of(*network).back(), "softmax_cross_entropy");
}

TEST(OnnxImport, EverythingUnsupportedIsListedAtOnce) {
  Model m(1, 6, 6);
  std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  v = m.add("Clip", "odd", {v, m.number("a", -1), m.number("b", 1)});
  v = m.add("Erf", "erf", {v});
  v = m.conv("c2", v, {4, 4, 1, 1}, {0, 0, 0, 0});
  const auto network = imported(m.finish(classify(m, v, 4)));
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.error().message,
            "2 nodes cannot be imported: node 'odd' (Clip): clips to other limits than 0 and 6, or "
            "0 and infinity; node 'erf' (Erf): this operator cannot be imported");
}

TEST(OnnxImport, WrongInputsAreRefused) {
  const auto message = [](Model& model, const std::string& output) {
    const auto network = imported(model.finish(output));
    return network.ok() ? std::string("imported") : network.error().message;
  };
  Model wide(5, 6, 6);
  wide.add("Flatten", "flat", {"x"});
  EXPECT_NE(message(wide, "flat").find("[N, C, H, W] with up to 4 channels"), std::string::npos);
  Model gone(3, 6, 6);
  gone.add("Relu", "r", {"x"});
  EXPECT_NE(message(gone, "r").find("has 108 numbers an example"), std::string::npos);
}

// A step of SGD moves every parameter; tests/long/onnx_networks compares gradients with PyTorch.
TEST(OnnxImport, TrainsTheImportedWeights) {
  Model m(1, 6, 6);
  std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {1, 1, 1, 1});
  v = m.norm("n1", v, 4);
  v = m.add("Relu", "r", {v});
  const auto network = imported(m.finish(classify(m, v, 4)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  auto run = ImportedRun::create(*network, Model::kBatch, true);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto gradients = (*run)->gradients(m.pixels(), {1, 3});
  ASSERT_TRUE(gradients.ok()) << gradients.error().message;
  for (size_t p = 0; p < gradients->size(); ++p) {
    if (!network->graph.parameters[p].trained) continue;
    double sum = 0;
    for (const float number : (*gradients)[p]) sum += std::abs(number);
    // A batch norm takes the gradient of the bias before it away.
    if (network->graph.parameters[p].name == "c1.bias") continue;
    EXPECT_GT(sum, 0) << p;
  }
}

}  // namespace
}  // namespace mantissa::testing
