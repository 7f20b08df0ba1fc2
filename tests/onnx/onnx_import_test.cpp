// Imported networks compute what ONNX's description says, built in memory and in fp32, and train.
#include "ops/attributes.h"
#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

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
  v = m.conv("c4", v, {6, 6, 1, 1}, {0, 0, 0, 0});
  v = m.add("Max", "relu", {v, m.number("nothing", 0)});
  const ImportedNetwork network = expect_same(m, classify(m, v, 6));
  EXPECT_EQ(count_of(network, "hard_swish"), 3);
  EXPECT_EQ(count_of(network, "hard_sigmoid"), 1);
  EXPECT_EQ(count_of(network, "leaky_relu"), 2);
  EXPECT_EQ(count_of(network, "relu"), 1);
  EXPECT_EQ(count_of(network, "convolution"), 4);
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

TEST(OnnxImport, PixelsMayBeFlattenedFirst) {
  for (const bool is_gemm : {true, false}) {
    Model m(3, 4, 5);
    const std::string v = m.add("Flatten", "flat", {"x"});
    expect_same(m, is_gemm ? m.add("Gemm", "f1", {v, m.weights("w", {60, 7}), m.weights("b", {7})})
                           : m.add("MatMul", "f1", {v, m.weights("w", {60, 7})}));
  }
  Model m(3, 4, 4);
  std::string v = m.add("Flatten", "flat", {"x"});
  v = m.add("Reshape", "again", {v, m.wholes("shape", {Model::kBatch, 16, -1})});
  const auto refused = imported(m.finish(v));
  EXPECT_FALSE(refused.ok());
  // Scales by channel mean nothing where pixels are channels.
  Model twice(3, 4, 4);
  v = twice.add("Mul", "twice", {twice.add("Flatten", "flat", {"x"}), twice.number("two", 2)});
  EXPECT_FALSE(
      imported(twice.finish(twice.add("Gemm", "f", {v, twice.weights("w", {48, 3})}))).ok());
  Model deep(1, 4, 4);
  v = deep.add("Reshape", "deep", {"x", deep.wholes("shape", {Model::kBatch, 16, 1, 1})});
  EXPECT_FALSE(
      imported(deep.finish(classify(deep, deep.conv("c", v, {3, 16, 1, 1}, {0, 0, 0, 0}), 3)))
          .ok());
}

// A model that takes bytes divides them itself.
TEST(OnnxImport, BytesAreNotNormalised) {
  Model m(ElementType::kUint8, {Model::kBatch, 1, 4, 4});
  std::string v = m.add("Cast", "cast", {"x"}, {{"to", int64_t{1}}});
  v = m.add("Flatten", "flat", {v});
  v = m.add("Gemm", "f1", {v, m.weights("w", {16, 3})});
  const auto network = onnx::import_network(m.finish(v), {});
  ASSERT_TRUE(network.ok()) << network.error().message;
  ASSERT_EQ(network->notes.size(), 1u);
  EXPECT_EQ(network->notes[0], "pixels enter the model as the bytes that they are");
  // The network's pixels are 64 times smaller.
  ASSERT_EQ(network->parameters[0].floats.size(), 48u);
  for (int64_t o = 0; o < 3; ++o) {
    for (int64_t i = 0; i < 16; ++i) {
      const double weight = static_cast<float>(uniform("w", i * 3 + o) - 0.5);
      EXPECT_NEAR(network->parameters[0].floats[o * 16 + i], 64 * weight, 1e-5);
    }
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

// A Sigmoid at the end belongs to the loss, whatever shape its results get behind it.
TEST(OnnxImport, SigmoidsAtTheEnd) {
  for (const int64_t outputs : {1, 5}) {
    for (const std::string shape : {"", "Identity", "Flatten", "Squeeze", "Reshape"}) {
      if (shape == "Squeeze" && outputs > 1) continue;
      Model m(1, 6, 4);
      std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
      v = m.add("GlobalAveragePool", "mean", {v});
      v = m.add("Flatten", "flat", {v});
      v = m.add("Gemm", "fc",
                {v, m.weights("fc.weight", {outputs, 6}), m.weights("fc.b", {outputs})},
                {{"transB", int64_t{1}}});
      v = m.add("Sigmoid", "p", {v});
      if (shape == "Squeeze") {
        v = m.add(shape, "shaped", {v, m.wholes("axis", {1})});
      } else if (shape == "Reshape") {
        v = m.add(shape, "shaped", {v, m.wholes("to", {Model::kBatch, 1, outputs})});
      } else if (!shape.empty()) {
        v = m.add(shape, "shaped", {v});
      }
      const ImportedNetwork network = imported_only(m, v);
      expect_json(network);
      EXPECT_EQ(count_of(network, "sigmoid"), 0) << shape;
      EXPECT_EQ(count_of(network, "linear"), 1) << shape;
      EXPECT_EQ(count_of(network, "sigmoid_cross_entropy"), 1) << shape;
      EXPECT_EQ(network.graph.classes(), outputs);
      const Value& labels = network.graph.values[network.graph.inputs[1]];
      EXPECT_EQ(labels.shape, outputs == 1 ? Shape{} : Shape{outputs});
    }
  }
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

// ShuffleNet v2's block, by Split and by Slices, with another place for each exporter's form.
TEST(OnnxImport, ChannelsAreSplitAndSliced) {
  for (const bool splits : {true, false}) {
    Model m(1, 6, 4);
    std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
    v = m.add("Reshape", "cut", {v, m.wholes("s1", {Model::kBatch, 2, 3, 6, 4})});
    v = m.add("Transpose", "turn", {v}, {{"perm", Wholes{0, 2, 1, 3, 4}}});
    v = m.add("Reshape", "join", {v, m.wholes("s2", {Model::kBatch, 6, 6, 4})});
    std::string left, right;
    if (splits) {
      left = m.split("parts", {v, m.wholes("sizes", {2, 4})}, {"left", "right"}, 1)[0];
      right = "right";
    } else {
      const std::string step = m.wholes("step", {1}), axis = m.wholes("axis", {1});
      left = m.add("Slice", "left", {v, m.wholes("b0", {0}), m.wholes("e0", {2}), axis, step});
      right = m.add("Slice", "right",
                    {v, m.wholes("b1", {-4}), m.wholes("e1", {INT64_MAX}), axis, step});
    }
    right = m.conv("c2", right, {4, 4, 1, 1}, {0, 0, 0, 0});
    v = m.add("Concat", "both", {left, right}, {{"axis", int64_t{1}}});
    const ImportedNetwork network = expect_same(m, classify(m, v, 6));
    EXPECT_EQ(count_of(network, "slice"), 2);
    EXPECT_EQ(count_of(network, "channel_shuffle"), 1);
  }
}

// As PyTorch's exporter leaves a chunk with optimize=False.
TEST(OnnxImport, SequencesOfPartsAreTakenApart) {
  for (const bool one_size : {true, false}) {
    Model m(1, 6, 4);
    std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
    const std::string sizes = one_size ? m.whole("size", 4) : m.wholes("sizes", {4, 2});
    const std::string parts = m.add("SplitToSequence", "parts", {v, sizes}, {{"axis", int64_t{1}}});
    std::vector<std::string> halves;
    for (const int64_t i : {1, 0}) {
      const std::string name = std::to_string(i);
      halves.push_back(m.add("SequenceAt", "part" + name, {parts, m.whole("at" + name, i)}));
    }
    v = m.add("Concat", "both", halves, {{"axis", int64_t{1}}});
    const ImportedNetwork network = imported_only(m, classify(m, v, 6));
    EXPECT_EQ(count_of(network, "slice"), 2);
    EXPECT_EQ(network.graph.nodes[2].attributes.as<ops::SliceAttributes>().first, 4);
    EXPECT_EQ(network.graph.nodes[2].attributes.as<ops::SliceAttributes>().channels, 2);
  }
}

// Inception's change of ImageNet's pixels: one channel at a time.
TEST(OnnxImport, ChannelsOfPixelsArePicked) {
  Model m(3, 5, 5);
  std::vector<std::string> channels;
  for (const int64_t c : {0, 1, 2}) {
    const std::string name = std::to_string(c);
    std::string v =
        m.add("Gather", "pick" + name, {"x", m.whole("at" + name, c)}, {{"axis", int64_t{1}}});
    v = m.add("Unsqueeze", "out" + name, {v, m.wholes("axes" + name, {1})});
    v = m.add("Mul", "times" + name, {v, m.number("factor" + name, 0.5f + 0.1f * c)});
    channels.push_back(m.add("Add", "plus" + name, {v, m.number("term" + name, 0.1f * c)}));
  }
  const std::string v = m.add("Concat", "all", channels, {{"axis", int64_t{1}}});
  expect_same(m, classify(m, m.conv("c", v, {4, 3, 3, 3}, {0, 0, 0, 0}), 4));
}

// What exporters compute of a value's shape, such as a flattening for any batch.
TEST(OnnxImport, ShapeArithmeticIsFolded) {
  Model m(1, 4, 4);
  m.open_batch();
  std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  const std::string shape = m.add("Shape", "shape", {v});
  std::string n = m.add("Gather", "n", {shape, m.whole("zero", 0)}, {{"axis", int64_t{0}}});
  n = m.add("Unsqueeze", "n1", {n, m.wholes("axes", {0})});
  const std::string wanted =
      m.add("Concat", "wanted", {n, m.wholes("rest", {-1})}, {{"axis", int64_t{0}}});
  v = m.add("Reshape", "flat", {v, wanted});
  v = m.add("MatMul", "fc", {v, m.weights("w", {16, 3})});
  const auto network = imported(m.finish(v));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(ops_of(*network), (std::vector<std::string>{"normalise_input", "convolution", "flatten",
                                                        "linear", "softmax_cross_entropy"}));
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
  EXPECT_EQ(
      network.error().message,
      "2 nodes cannot be imported: node 'odd' (Clip): clips to other limits than 0 and 6, or "
      "0 and infinity; node 'erf' (Erf): this operator cannot be imported, since nothing here "
      "trains it; `mantissa run` computes it");
}

TEST(OnnxImport, BytesOfAttributesAreReadableInMessages) {
  Model m(1, 6, 6);
  const std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  const std::string pooled =
      m.add("MaxPool", "pool", {v},
            {{"kernel_shape", Wholes{2, 2}}, {"auto_pad", std::string("SAME\nLOWER")}});
  const auto network = imported(m.finish(classify(m, pooled, 4)));
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.error().message,
            "1 node cannot be imported: node 'pool' (MaxPool): has an auto_pad of 'SAME\\nLOWER'");
}

// (x - mean) / sqrt(variance + epsilon), over all of the picture or over height and width.
TEST(OnnxImport, SpelledOutNormsOfPictures) {
  for (const Wholes& axes : {Wholes{1, 2, 3}, Wholes{2, 3}, Wholes{-1, -2}}) {
    Model m(1, 6, 6);
    std::string v = m.conv("c1", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
    const std::string mean = m.add("ReduceMean", "m", {v}, {{"axes", axes}});
    const std::string centred = m.add("Sub", "centred", {v, mean});
    const std::string square = m.add("Pow", "square", {centred, m.number("two", 2)});
    const std::string variance = m.add("ReduceMean", "variance", {square}, {{"axes", axes}});
    const std::string sum = m.add("Add", "sum", {variance, m.number("epsilon", 1e-5f)});
    const std::string root = m.add("Sqrt", "root", {sum});
    v = m.add("Div", "norm", {centred, root});
    v = m.add("Tanh", "bent", {v});  // the mean of a normed picture is 0
    const ImportedNetwork network = expect_same(m, classify(m, v, 4));
    EXPECT_EQ(count_of(network, "group_norm"), 1);
  }
}

TEST(OnnxImport, WrongInputsAreRefused) {
  const auto message = [](Model& model, const std::string& output) {
    const auto network = imported(model.finish(output));
    return network.ok() ? std::string("imported") : network.error().message;
  };
  Model gone(3, 6, 6);
  gone.add("Relu", "r", {"x"});
  EXPECT_EQ(message(gone, "r"), "imported");  // three classes for each of 36 places
  Model one(1, 6, 6);
  one.add("Relu", "r", {"x"});
  EXPECT_NE(message(one, "r"), "imported");
}

// A step of SGD moves every parameter; tests/long/onnx/onnx_networks compares gradients with PyTorch.
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
