// Imported networks of sequences compute what ONNX's description says, built in memory and in fp32,
// and train. tests/long/onnx/onnx_sequences compares exports of PyTorch.
#include <gtest/gtest.h>

#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

// GELU in the forms of exporters, and its approximation.
TEST(OnnxSequences, SpelledOutGelus) {
  for (const int form : {0, 1, 2, 3}) {
    Model m(kReal, {kBatch, kSteps, kChannels});
    const std::string x = linear(m, "wide", "x", kChannels, 6);
    const std::string half = m.number("half", 0.5f), one = m.number("one", 1);
    const std::string root = form == 1 ? m.add("Mul", "root", {x, m.number("r", 0.70710678f)})
                                       : m.add("Div", "root", {x, m.number("r", 1.41421356f)});
    const std::string bent = m.add("Add", "bent", {m.add("Erf", "erf", {root}), one});
    std::string y = x;
    if (form == 0) y = m.add("Mul", "y", {m.add("Mul", "p", {x, bent}), half});
    if (form == 1) y = m.add("Mul", "y", {m.add("Mul", "p", {half, x}), bent});
    if (form == 2) y = m.add("Mul", "y", {x, m.add("Mul", "p", {bent, half})});
    if (form == 3) y = m.add("Div", "y", {m.add("Mul", "p", {bent, x}), m.number("two", 2)});
    const ImportedNetwork network = expect_numbers(m, linear(m, "head", y, 6, 4), kChannels);
    EXPECT_EQ(count_of(network, "gelu"), 1);
  }
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string x = linear(m, "wide", "x", kChannels, 6);
  const std::string cube = m.add("Pow", "cube", {x, m.number("three", 3)});
  const std::string sum =
      m.add("Add", "sum", {x, m.add("Mul", "part", {cube, m.number("c", 0.044715f)})});
  const std::string tanh =
      m.add("Tanh", "tanh", {m.add("Mul", "arg", {sum, m.number("s", 0.79788456f)})});
  const std::string bent = m.add("Add", "bent", {m.number("one", 1), tanh});
  const std::string y = m.add("Mul", "y", {m.add("Mul", "p", {m.number("half", 0.5f), x}), bent});
  const ImportedNetwork network = expect_numbers(m, linear(m, "head", y, 6, 4), kChannels);
  EXPECT_EQ(count_of(network, "gelu_tanh"), 1);
}

TEST(OnnxSequences, SpelledOutNormsKeepTheirEpsilon) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string axes = m.wholes("axes", {-1});
  const std::string mean = m.add("ReduceMean", "m", {"x", axes});
  const std::string centred = m.add("Sub", "centred", {"x", mean});
  const std::string square = m.add("Pow", "square", {centred, m.number("two", 2)});
  const std::string variance = m.add("ReduceMean", "variance", {square, axes});
  const std::string sum = m.add("Add", "sum", {variance, m.number("epsilon", 0.05f)});
  std::string v = m.add("Div", "norm", {centred, m.add("Sqrt", "root", {sum})});
  v = m.add("Mul", "gamma", {v, m.weights("g", {kChannels}, 0.5, 1.5)});
  v = m.add("Add", "beta", {v, m.weights("b", {kChannels})});
  v = m.add("LayerNormalization", "second", {v, m.weights("second.weight", {kChannels}, 0.5, 2)},
            {{"epsilon", 1e-3f}});
  const ImportedNetwork network = expect_numbers(m, linear(m, "head", v, kChannels, 4), kChannels);
  EXPECT_EQ(count_of(network, "layer_norm"), 2);
  EXPECT_EQ(network.graph.nodes.back().inputs.size(), 2U);
}

TEST(OnnxSequences, SpelledOutRmsNorms) {
  for (const bool divides : {false, true}) {
    Model m(kReal, {kBatch, kSteps, kChannels});
    const std::string square = m.add("Pow", "square", {"x", m.number("two", 2)});
    const std::string mean = m.add("ReduceMean", "mean", {square, m.wholes("axes", {-1})});
    const std::string sum = m.add("Add", "sum", {mean, m.number("epsilon", 0.05f)});
    const std::string root = m.add("Sqrt", "root", {sum});
    std::string v = divides ? m.add("Div", "norm", {"x", root})
                            : m.add("Mul", "norm", {"x", m.add("Reciprocal", "inverse", {root})});
    v = m.add("Mul", "gamma", {v, m.weights("g", {kChannels}, 0.5, 1.5)});
    const ImportedNetwork network =
        expect_numbers(m, linear(m, "head", v, kChannels, 4), kChannels);
    EXPECT_EQ(count_of(network, "rms_norm"), 1);
    EXPECT_EQ(count_of(network, "multiply"), 0);
  }
}

// An embedding with a factor, positions of any shape, and the classifier with the embedding's
// weights.
TEST(OnnxSequences, TokensAndTiedWeights) {
  for (const bool steps_first : {false, true}) {
    Model m(kWhole, steps_first ? Wholes{kSteps, kBatch} : Wholes{kBatch, kSteps});
    const std::string table = m.weights("table.weight", {kTokens, kChannels});
    std::string v = m.add("Gather", "embed", {table, "x"});
    const std::string positions = steps_first ? m.weights("positions", {kSteps, 1, kChannels})
                                              : m.weights("positions", {kSteps, kChannels});
    v = m.add("Add", "placed", {positions, v});
    v = m.add("Transpose", "turn", {v}, {{"perm", Wholes{1, 0, 2}}});
    v = m.add("Relu", "relu", {v});
    v = m.add("Transpose", "back", {v}, {{"perm", Wholes{1, 0, 2}}});
    v = steps_first ? m.add("Transpose", "out", {v}, {{"perm", Wholes{1, 0, 2}}}) : v;
    v = m.add("MatMul", "head", {v, m.add("Transpose", "tied", {table})});
    const ImportedNetwork network = expect_tokens(m, v, steps_first);
    EXPECT_EQ(network.graph.inputs.size(), 2U);
    EXPECT_EQ(network.parameters.size(), 2U);  // the table and the positions
    const auto& names = network.graph.values;
    EXPECT_EQ(names[network.graph.inputs[0]].name, "tokens");
    EXPECT_EQ(names[network.graph.inputs[1]].shape, Shape{kSteps});
  }
  Model m(kWhole, {kBatch, kSteps});
  std::string v = m.add("Gather", "embed", {m.weights("table.weight", {kTokens, kChannels}), "x"});
  v = m.add("Mul", "wide", {v, m.number("four", 4)});
  expect_tokens(m, linear(m, "head", v, kChannels, kTokens));
}

TEST(OnnxSequences, OnePositionOrTwo) {
  for (const int form : {0, 1, 2}) {
    Model m(kReal, {kBatch, kSteps, kChannels});
    std::string v = linear(m, "wide", "x", kChannels, 6);
    if (form == 0) v = m.add("Gather", "first", {v, m.whole("i", 0)}, {{"axis", int64_t{1}}});
    if (form == 1) v = m.add("Gather", "last", {v, m.whole("i", -1)}, {{"axis", int64_t{1}}});
    if (form == 2) {
      v = m.add("Slice", "third", {v, m.wholes("b", {2}), m.wholes("e", {3}), m.wholes("a", {1})});
      v = m.add("Squeeze", "s", {v, m.wholes("axes", {1})});
    }
    expect_numbers(m, linear(m, "head", v, 6, 4), kChannels);
  }
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string two =
      m.add("Slice", "two", {"x", m.wholes("b", {1}), m.wholes("e", {3}), m.wholes("a", {1})});
  expect_numbers(m, linear(m, "head", two, kChannels, 4), kChannels);
}

// Open sizes: any number of examples; positions by the option.
TEST(OnnxSequences, OpenSizes) {
  Model m(kWhole, {-1, -1});
  std::string v = m.add("Gather", "embed", {m.weights("table.weight", {kTokens, kChannels}), "x"});
  v = linear(m, "head", v, kChannels, kTokens);
  EXPECT_NE(refusal(m, v).find("the input 'x' is [2, ?]; --sequence says"), std::string::npos)
      << refusal(m, v);
  expect_tokens(m, v, false, kSteps);
}

// Examples that are mixed are seen, whatever their number is.
TEST(OnnxSequences, MixedExamplesAreRefused) {
  Model m(kReal, {-1, kSteps, kChannels});
  const std::string v = m.add("ReduceMean", "mean", {"x", m.wholes("axes", {0})});
  const std::string head = linear(m, "head", v, kChannels, 4);
  // As [T, N, C] the model would leave the number of positions open.
  EXPECT_NE(refusal(m, head).find("node 'mean' (ReduceMean): goes over the examples"),
            std::string::npos)
      << refusal(m, head);
}

TEST(OnnxSequences, EverythingUnsupportedIsListedAtOnce) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  std::string v = m.add("Conv", "conv", {"x", m.weights("w", {4, kSteps, 1})});
  v = m.add("Hardmax", "hard", {v});
  const std::string cube = m.add("Mul", "channels", {"x", m.weights("c", {kChannels})});
  const std::string text = refusal(m, m.add("Add", "sum", {cube, v}));
  EXPECT_EQ(text,
            "2 nodes cannot be imported: node 'hard' (Hardmax): this operator cannot be "
            "imported, since nothing here trains it; `mantissa run` computes it; node 'channels' "
            "(Mul): its constant is not one number, or one for each channel");
}

TEST(OnnxSequences, ASubtractedConstantIsABias) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string product = m.add("MatMul", "head", {"x", m.weights("w", {kChannels, 4})});
  const ImportedNetwork network =
      expect_numbers(m, m.add("Sub", "less", {product, m.weights("c", {4})}), kChannels);
  EXPECT_EQ(network.graph.parameters.size(), 2U);
}

// A factor waits for a layer with weights; other nodes get it by a node of its own, once.
TEST(OnnxSequences, Factors) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string third = m.add("Div", "third", {"x", m.number("three", 3)});
  expect_numbers(m, linear(m, "head", third, kChannels, 4), kChannels);
  Model bent(kReal, {kBatch, kSteps, kChannels});
  const std::string half = bent.add("Mul", "half", {bent.number("n", -0.5f), "x"});
  const std::string sum =
      bent.add("Add", "sum", {bent.add("Tanh", "tanh", {half}), bent.add("Sigmoid", "s", {half})});
  const ImportedNetwork network =
      expect_numbers(bent, linear(bent, "head", sum, kChannels, 4), kChannels);
  EXPECT_EQ(count_of(network, "rescale"), 1);
  EXPECT_FALSE(network.graph.parameters[0].trained);
}

// A step of SGD moves every parameter; tests/long/onnx/onnx_sequences compares gradients with PyTorch.
TEST(OnnxSequences, TrainsTheImportedWeights) {
  Model m(kWhole, {kBatch, kSteps});
  std::string v = m.add("Gather", "embed", {m.weights("table.weight", {kTokens, kChannels}), "x"});
  v = m.add("Transpose", "t1", {v}, {{"perm", Wholes{1, 0, 2}}});
  m.add("LSTM", "lstm", recurrent_inputs(m, kKinds[1], "lstm", v, kChannels, true));
  v = m.add("Squeeze", "s", {"lstm", m.wholes("axes", {1})});
  v = m.add("Transpose", "t2", {v}, {{"perm", Wholes{1, 0, 2}}});
  const Heads h = heads_of(m, v);
  std::string s = m.add("MatMul", "scores", {h.q, h.k});
  s = m.add("Mul", "scaled", {s, m.number("factor", 0.5f)});
  s = m.add("MatMul", "attend", {m.add("Softmax", "soft", {s}), h.v});
  const auto network =
      import_sequences(m.finish(linear(m, "head", join_heads(m, s), kChannels, kTokens)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  auto run = ImportedRun::create(*network, kBatch, true);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const std::vector<int32_t> labels = {1, 2, 3, 4, 5, 6, 7, 8, 0, 1};
  const auto gradients = (*run)->gradients(tokens(), labels);
  ASSERT_TRUE(gradients.ok()) << gradients.error().message;
  for (size_t p = 0; p < gradients->size(); ++p) {
    double sum = 0;
    for (const float number : (*gradients)[p]) sum += std::abs(number);
    // A softmax takes what all keys of a query have in common away.
    if (network->graph.parameters[p].name == "k.bias") continue;
    EXPECT_GT(sum, 0) << network->graph.parameters[p].name;
  }
}

}  // namespace
}  // namespace mantissa::testing
