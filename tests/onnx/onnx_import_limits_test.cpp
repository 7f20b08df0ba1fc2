// What an import cuts, drops or guesses it says: numbers of foreign files at their ends.
#include "ops/attributes.h"
#include "ops/ops.h"
#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

std::string message_of(Model& model, const std::string& output) {
  const auto network = imported(model.finish(output));
  return network.ok() ? "imported" : network.error().message;
}

bool says(const std::string& message, const std::string& words) {
  return message.find(words) != std::string::npos;
}

// The variance and epsilon of a channel may be anything above 0; training's own form, with the
// statistics of the batch, stays near.
TEST(OnnxImportLimits, BatchNormsDivideByWhatTheModelDividesBy) {
  for (const float epsilon : {0.0f, 1e-12f, 1e-8f, 1e-6f, 9e-6f, 1e-5f, 1e-3f, 0.5f}) {
    for (const bool behind_layer : {true, false}) {
      Model m(1, 8, 8);
      std::string v = m.conv("c", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
      if (!behind_layer) v = m.add("Relu", "r", {v});
      v = m.add("BatchNormalization", "n",
                {v, m.weights("n.scale", {6}, 0.5, 1.5), m.weights("n.bias", {6}),
                 m.weights("n.mean", {6}),
                 m.numbers("n.var", {6}, {1e-10f, 1e-7f, 9e-6f, 1e-5f, 0.01f, 2})},
                {{"epsilon", epsilon}});
      const ImportedNetwork network = expect_same(m, classify(m, v, 6));
      for (const auto& parameter : network.parameters) {
        for (const double variance : parameter.doubles) EXPECT_TRUE(std::isfinite(variance));
      }
    }
  }
}

// A channel that an epsilon of 0.001 hides is not loud in training, which adds 1e-5.
TEST(OnnxImportLimits, ALargeEpsilonHidesQuietChannelsInTrainingToo) {
  Model m(1, 8, 8);
  std::string v = m.conv("c", "x", {2, 1, 3, 3}, {1, 1, 1, 1});
  v = m.add("BatchNormalization", "n",
            {v, m.numbers("n.weight", {2}, {1, 1}), m.weights("n.b", {2}), m.weights("n.m", {2}),
             m.numbers("n.v", {2}, {1e-8f, 1})},
            {{"epsilon", 1e-3f}});
  const ImportedNetwork network = expect_same(m, classify(m, v, 2));
  for (const auto& parameter : network.parameters) {
    if (parameter.name != "n.scale") continue;
    EXPECT_NEAR(parameter.floats[0], std::sqrt(1e-5 / 1e-3), 1e-3);
    EXPECT_NEAR(parameter.floats[1], 1, 1e-6);
  }
}

TEST(OnnxImportLimits, BatchNormsThatDivideByNothingAreRefused) {
  Model m(1, 4, 4);
  std::string v = m.conv("c", "x", {2, 1, 3, 3}, {1, 1, 1, 1});
  v = m.add("BatchNormalization", "n",
            {v, m.weights("s", {2}), m.weights("b", {2}), m.weights("mean", {2}),
             m.numbers("v", {2}, {0, 1})},
            {{"epsilon", 0.0f}, {"momentum", 0.5f}});
  EXPECT_TRUE(says(message_of(m, classify(m, v, 2)), "divides by its root"));
}

TEST(OnnxImportLimits, TheMomentumOfRunningStatisticsIsSaid) {
  Model m(1, 4, 4);
  std::string v = m.conv("c", "x", {2, 1, 3, 3}, {1, 1, 1, 1});
  v = m.add("BatchNormalization", "n",
            {v, m.weights("s", {2}), m.weights("b", {2}), m.weights("mean", {2}),
             m.numbers("v", {2}, {1, 1})},
            {{"momentum", 0.5f}});
  const ImportedNetwork network = expect_same(m, classify(m, v, 2));
  ASSERT_EQ(network.notes.size(), 2u);
  EXPECT_TRUE(says(network.notes[1], "in the model they keep 0.5"));
}

// Numbers at the ends of int64 are out of range, and nothing is read or written outside.
TEST(OnnxImportLimits, NumbersAtTheEndsOfInt64AreRefused) {
  for (const int64_t end : {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1}) {
    for (const char* op : {"Flatten", "Concat", "Split", "Gather", "Softmax", "LogSoftmax"}) {
      Model m(1, 6, 6);
      std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
      std::vector<std::string> inputs = {v};
      if (op == std::string("Gather")) inputs.push_back(m.wholes("places", {end}));
      v = m.add(op, "odd", inputs, {{"axis", end}});
      EXPECT_TRUE(says(message_of(m, classify(m, v, 4)), "'odd'")) << op;
    }
    for (const char* op : {"Squeeze", "Unsqueeze", "ReduceMean"}) {
      Model m(1, 6, 6);
      std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
      v = m.add(op, "odd", {v}, {{"axes", Wholes{end}}});
      EXPECT_TRUE(says(message_of(m, classify(m, v, 4)), "'odd'")) << op;
    }
    for (const char* list : {"pads", "strides", "dilations", "kernel_shape"}) {
      for (const char* op : {"MaxPool", "AveragePool", "Conv"}) {
        Model m(1, 6, 6);
        std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
        std::vector<std::string> inputs = {v};
        if (op == std::string("Conv")) inputs.push_back(m.weights("w", {4, 4, 2, 2}));
        const bool is_pads = list == std::string("pads");
        std::vector<NodeAttribute> attributes = {
            {list, is_pads ? Wholes{end, 0, 0, 0} : Wholes{end, 1}}};
        if (list != std::string("kernel_shape")) {
          attributes.push_back({"kernel_shape", Wholes{2, 2}});
        }
        v = m.add(op, "odd", inputs, attributes);
        EXPECT_NE(message_of(m, classify(m, v, 4)), "imported") << op << list;
      }
    }
    Model padded(1, 6, 6);
    std::string v = padded.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
    v = padded.add("Pad", "odd", {v, padded.wholes("p", {0, 0, end, end, 0, 0, end, end})});
    EXPECT_NE(message_of(padded, classify(padded, v, 4)), "imported");
    Model cast(1, 6, 6);
    v = cast.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
    v = cast.add("Cast", "odd", {v}, {{"to", end - (end & 255) + 1}});  // the last byte says float
    EXPECT_TRUE(says(message_of(cast, classify(cast, v, 4)), "'odd' (Cast)"));
  }
}

TEST(OnnxImportLimits, AnAxisTwiceIsRefused) {
  for (const char* op : {"Squeeze", "Unsqueeze"}) {
    Model m(1, 6, 6);
    std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
    v = m.add("GlobalAveragePool", "g", {v});
    if (op == std::string("Unsqueeze")) v = m.add("Flatten", "f", {v});
    v = m.add(op, "odd", {v, m.wholes("axes", {3, 3, 3, 3})});
    EXPECT_TRUE(says(message_of(m, v), "has an axis twice")) << op;
  }
}

TEST(OnnxImportLimits, AttributesThatNobodyKnowsAreNamed) {
  Model m(1, 6, 6);
  std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0}, {{"circular", int64_t{1}}});
  EXPECT_EQ(
      message_of(m, classify(m, v, 4)),
      "1 node cannot be imported: node 'c' (Conv): has the attribute 'circular', which is not "
      "supported");
}

TEST(OnnxImportLimits, ASoftmaxOverSomethingElseIsNotTheLosss) {
  Model m(1, 4, 4);
  std::string v = classify(m, m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0}), 4);
  v = m.add("Softmax", "soft", {v}, {{"axis", int64_t{0}}});
  EXPECT_TRUE(says(message_of(m, v), "goes over the examples of a batch"));
}

TEST(OnnxImportLimits, NumbersThatFloat32LacksAreRefused) {
  Model m(1, 4, 4);
  std::string v = m.conv("c", "x", {2, 1, 3, 3}, {1, 1, 1, 1});
  v = m.add("Mul", "times", {v, m.numbers("f", {}, {3e38f})});
  v = m.add("Mul", "again", {v, m.numbers("g", {}, {1e30f})});
  EXPECT_TRUE(says(message_of(m, classify(m, v, 2)), "infinite or too large for float32"));
  for (const float slope : {-0.5f, 1.5f, std::nanf("")}) {
    Model leaky(1, 4, 4);
    v = leaky.conv("c", "x", {2, 1, 3, 3}, {1, 1, 1, 1});
    v = leaky.add("LeakyRelu", "odd", {v}, {{"alpha", slope}});
    EXPECT_TRUE(says(message_of(leaky, classify(leaky, v, 2)), "0 to 1 is possible"));
  }
}

// As other frameworks have it: pixels, pads, sums and means with the channels last.
TEST(OnnxImportLimits, ChannelsMayBeLast) {
  Model m(ElementType::kFloat, {Model::kBatch, 6, 5, 3});
  std::string v = m.add("Mul", "by", {"x", m.weights("by.w", {3}, 0.5, 2)});
  v = m.add("Sub", "less", {v, m.weights("less.w", {1, 1, 1, 3})});
  v = m.add("Pad", "pad", {v, m.wholes("pads", {0, 1, 0, 0, 0, 0, 2, 0})});
  v = m.add("Transpose", "first", {v}, {{"perm", Wholes{0, 3, 1, 2}}});
  v = m.conv("c", v, {4, 3, 3, 3}, {0, 0, 0, 0});
  v = m.add("Transpose", "last", {v}, {{"perm", Wholes{0, 2, 3, 1}}});
  v = m.add("Add", "bias", {v, m.weights("bias.w", {4})});
  v = m.add("Relu", "r", {v});
  const std::string twice = m.add("Add", "sum", {v, v});
  v = m.add("Concat", "both", {v, twice}, {{"axis", int64_t{3}}});
  v = m.add("ReduceMean", "mean", {v, m.wholes("axes", {1, 2})}, {{"keepdims", int64_t{0}}});
  v = m.add("MatMul", "fc", {v, m.weights("w", {8, 5})});
  const ModelData& data = m.finish(v);
  const auto network = onnx::import_network(data, {.mean = {0}, .deviation = {1}, .output = ""});
  ASSERT_TRUE(network.ok()) << network.error().message;
  std::vector<uint8_t> pixels;
  std::vector<float> numbers;
  for (int64_t i = 0; i < Model::kBatch * 6 * 5 * 3; ++i) {
    pixels.push_back(static_cast<uint8_t>(i * 37 % 256));
    numbers.push_back(static_cast<float>(pixels.back()) / 255.0f);
  }
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(
      data, {{"x", tensor_of("x", ElementType::kFloat, {Model::kBatch, 6, 5, 3}, numbers)}}, pool);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  auto run = ImportedRun::create(*network, Model::kBatch, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto logits = (*run)->logits(pixels);
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  expect_near((*expected)[0], *logits, network->graph);
}

// A grouped convolution at the end is no linear layer; one stands behind it.
TEST(OnnxImportLimits, OtherHeadsGetALayerBehindThem) {
  Model m(1, 6, 6);
  std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  v = m.add("GlobalAveragePool", "g", {v});
  v = m.conv("head", v, {4, 2, 1, 1}, {0, 0, 0, 0}, {{"group", int64_t{2}}});
  const ImportedNetwork network = expect_same(m, m.add("Flatten", "flat", {v}));
  EXPECT_EQ(count_of(network, "linear"), 1);
  const auto run = ImportedRun::create(network, Model::kBatch, true);
  EXPECT_TRUE(run.ok()) << run.error().message;
}

TEST(OnnxImportLimits, OneReasonIsSaidOnce) {
  Model m(1, 6, 6);
  std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  for (int i = 0; i < 70; ++i) v = m.add("Erf", "erf" + std::to_string(i), {v});
  v = m.add("Clip", "odd", {v, m.number("a", -1), m.number("b", 1)});
  EXPECT_EQ(
      message_of(m, classify(m, v, 4)),
      "70 nodes cannot be imported: nodes 'erf0', 'erf1', 'erf2' and 67 more (Erf): this "
      "operator cannot be imported, since nothing here trains it; `mantissa run` computes it");
}

// What would be folded away, if a node before were known, is not what is wrong.
TEST(OnnxImportLimits, WhatDependsOnARefusedNodeIsNotNamed) {
  Model m(1, 6, 6);
  std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  m.add_all("Unheard", "unheard", {v}, {"u"});
  const std::string shape = m.add("Shape", "shape", {"u"});
  const std::string first = m.add("Gather", "first", {shape, m.wholes("zero", {0})});
  const std::string all = m.add("ConstantOfShape", "all", {first});
  const std::string wanted =
      m.add("Concat", "wanted", {first, m.wholes("rest", {-1})}, {{"axis", int64_t{0}}});
  static_cast<void>(all);
  v = m.add("Reshape", "flat", {"u", wanted});
  v = m.add("MatMul", "fc", {v, m.weights("w", {64, 3})});
  EXPECT_EQ(
      message_of(m, v),
      "1 node cannot be imported: node 'unheard' (Unheard): this operator cannot be imported");
}

TEST(OnnxImportLimits, InputsThatAreNoneOfOursAreNamed) {
  Model m(ElementType::kInt64, {2, 6});
  m.add_input("token_type_ids", ElementType::kInt64, {2, 6});
  std::string v = m.add("Gather", "g", {m.weights("table", {4, 8}), "token_type_ids"});
  v = m.add("MatMul", "fc", {v, m.weights("w", {8, 3})});
  const auto network = onnx::import_network(m.finish(v));
  ASSERT_FALSE(network.ok());
  EXPECT_TRUE(says(network.error().message,
                   "the model's output depends on the input 'token_type_ids' (int64 [2, 6]); "
                   "possible are inputs of pictures"))
      << network.error().message;
}

TEST(OnnxImportLimits, EqualSlopesAreTrainedForEachChannel) {
  Model m(1, 6, 6);
  std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  v = m.add("PRelu", "p", {v, m.numbers("s", {4, 1, 1}, {0.25f, 0.25f, 0.25f, 0.25f})});
  EXPECT_EQ(count_of(expect_same(m, classify(m, v, 4)), "prelu"), 1);
}

template <typename T>
std::string zero_point(Model& m, const std::string& name, ElementType type, T zero) {
  m.tensor(tensor_of(name, type, {}, std::vector<T>{zero}));
  return name;
}

// Both nodes of a pair, with a Clip of whole numbers between them if there are limits.
std::string pair_of(Model& m, const std::string& name, const std::string& value, float scale,
                    const std::string& zero, const std::vector<std::string>& limits = {}) {
  const std::string step = m.number(name + ".scale", scale);
  std::string v = m.add("QuantizeLinear", name, {value, step, zero});
  if (!limits.empty()) v = m.add("Clip", name + ".clip", {v, limits[0], limits[1]});
  return m.add("DequantizeLinear", name + ".real", {v, step, zero});
}

// With and without a sign, with zero points, of fewer bits; read by layers, sums and pools. No
// value reaches the lowest number of a grid such as -128, which the import takes as -127 (it says
// so). The scales are such that no sum lies in the middle between two numbers of its grid.
TEST(OnnxImportLimits, PairsOfQuantisersOfAllKinds) {
  Model m(1, 8, 8);
  std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {1, 1, 1, 1});
  v = pair_of(m, "signed", v, 0.05f, zero_point<int8_t>(m, "z1", ElementType::kInt8, 0));
  v = m.conv("c2", v, {4, 4, 1, 1}, {0, 0, 0, 0});
  v = pair_of(m, "middle", v, 0.05f, zero_point<uint8_t>(m, "z2", ElementType::kUint8, 128));
  const std::string left =
      m.add("MaxPool", "pool", {v}, {{"kernel_shape", Wholes{2, 2}}, {"strides", Wholes{2, 2}}});
  const std::string right =
      m.conv("c3", v, {4, 4, 2, 2}, {0, 0, 0, 0}, {{"strides", Wholes{2, 2}}});
  v = m.add(
      "Add", "sum",
      {pair_of(m, "low", left, 0.0103f, zero_point<uint8_t>(m, "z3", ElementType::kUint8, 77)),
       pair_of(m, "few", right, 0.13f, zero_point<int8_t>(m, "z4", ElementType::kInt8, 0),
               {zero_point<int8_t>(m, "least", ElementType::kInt8, -7),
                zero_point<int8_t>(m, "most", ElementType::kInt8, 7)})});
  v = m.add("Relu", "r", {v});
  v = pair_of(m, "never", v, 0.00917f, zero_point<int8_t>(m, "z5", ElementType::kInt8, -128));
  const ImportedNetwork network = expect_same(m, classify(m, v, 4));
  std::vector<int64_t> bits;
  int offsets = 0;
  for (const Node& node : network.graph.nodes) {
    if (node.op != &ops::kQuantise) continue;
    bits.push_back(node.attributes.as<ops::QuantiseAttributes>().bits);
    offsets += node.attributes.as<ops::QuantiseAttributes>().offset ? 1 : 0;
  }
  std::sort(bits.begin(), bits.end());
  EXPECT_EQ(bits, (std::vector<int64_t>{4, 8, 8, 8, 8}));
  EXPECT_EQ(offsets, 1);
  const auto run = ImportedRun::create(network, Model::kBatch, true);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
}

// Pairs of 16 bits, and the pair of the output, whose reader is the loss.
TEST(OnnxImportLimits, QuantisersLeftOutAreSaid) {
  for (const bool is_output : {false, true}) {
    Model m(1, 8, 8);
    std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {1, 1, 1, 1});
    if (is_output) {
      const std::string zero = zero_point<int8_t>(m, "z", ElementType::kInt8, 0);
      v = pair_of(m, "last", classify(m, v, 4), 0.1f, zero);
    } else {
      const std::string zero = zero_point<int16_t>(m, "z", ElementType::kInt16, 0);
      v = classify(m, pair_of(m, "wide", v, 1e-4f, zero), 4);
    }
    const auto network = imported(m.finish(v));
    ASSERT_TRUE(network.ok()) << network.error().message;
    EXPECT_TRUE(std::any_of(network->notes.begin(), network->notes.end(), [&](const auto& note) {
      return says(
          note, is_output ? "quantisation of the output is left out" : "with 16 bits are left out");
    }));
    for (const Node& node : network->graph.nodes) EXPECT_NE(node.op, &ops::kQuantise);
  }
}

TEST(OnnxImportLimits, QuantisersOfPixelsHoldThem) {
  for (const float scale : {1.0f, 1e-4f}) {
    Model m(1, 8, 8);
    std::string v = pair_of(m, "p", "x", scale, zero_point<int8_t>(m, "z", ElementType::kInt8, 0));
    v = m.conv("c1", v, {4, 1, 3, 3}, {1, 1, 1, 1});
    const std::string message = message_of(m, classify(m, v, 4));
    EXPECT_TRUE(says(message, scale == 1 ? "imported" : "cuts pixels, which enter as ")) << message;
  }
}

TEST(OnnxImportLimits, QuantisersWithoutAPairAreNamed) {
  for (const auto& [scale, second_zero] : {std::pair{0.2f, 0}, std::pair{0.1f, 3}}) {
    Model m(1, 8, 8);
    std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {1, 1, 1, 1});
    v = m.add("QuantizeLinear", "q",
              {v, m.number("s", 0.1f), zero_point<uint8_t>(m, "z", ElementType::kUint8, 0)});
    v = m.add(
        "DequantizeLinear", "d",
        {v, m.number("t", scale),
         zero_point<uint8_t>(m, "w", ElementType::kUint8, static_cast<uint8_t>(second_zero))});
    EXPECT_EQ(message_of(m, classify(m, v, 4)),
              "1 node cannot be imported: node 'q' (QuantizeLinear): has another scale or zero "
              "point than the DequantizeLinear behind it");
  }
  Model integers(1, 8, 8);
  std::string v = integers.conv("c1", "x", {4, 1, 3, 3}, {1, 1, 1, 1});
  v = integers.add("QLinearConv", "q", {v});
  EXPECT_TRUE(says(message_of(integers, classify(integers, v, 4)), "(QDQ) can be imported"));
}

}  // namespace
}  // namespace mantissa::testing
