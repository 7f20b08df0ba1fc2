// Imported recurrent layers compute what ONNX's description says, in fp32.
#include <gtest/gtest.h>

#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

TEST(OnnxRecurrentLayers, RecurrentLayersWithPeepholesAndStartsOfZeros) {
  for (const Kind& kind : kKinds) {
    Model m(kReal, {kBatch, kSteps, 6});
    std::string v = m.add("Transpose", "t1", {"x"}, {{"perm", Wholes{1, 0, 2}}});
    for (const int64_t in : {6, 8}) {
      const std::string name = "layer" + std::to_string(in);
      m.add(kind.op, name, recurrent_inputs(m, kind, name, v, in, in == 6), kind.attributes());
      v = m.add("Squeeze", name + ".s", {name, m.wholes(name + ".axes", {1})});
    }
    v = m.add("Transpose", "t2", {v}, {{"perm", Wholes{1, 0, 2}}});
    const ImportedNetwork network = expect_numbers(m, linear(m, "head", v, kChannels, 4), 6);
    EXPECT_EQ(count_of(network, kind.ours), 2);
    EXPECT_EQ(count_of(network, "linear"), 3);
  }
}

// Examples outermost by the attribute, and the last state.
TEST(OnnxRecurrentLayers, LastStates) {
  for (const Kind& kind : kKinds) {
    for (const int64_t layout : {0, 1}) {
      Model m(kReal, layout == 0 ? Wholes{kSteps, kBatch, 6} : Wholes{kBatch, kSteps, 6});
      std::vector<NodeAttribute> attributes = kind.attributes();
      attributes.push_back({"layout", layout});
      m.add_all(kind.op, "rnn", recurrent_inputs(m, kind, "rnn", "x", 6, false), {"all", "last"},
                attributes);
      const std::string v =
          m.add("Squeeze", "s", {"last", m.wholes("axes", {layout == 0 ? 0 : 1})});
      const ImportedNetwork network =
          expect_numbers(m, linear(m, "head", v, kChannels, 4), 6, layout == 0);
      EXPECT_EQ(count_of(network, "slice"), 1);
    }
  }
}

// Both directions, and backward alone; all states and the last of each.
TEST(OnnxRecurrentLayers, Directions) {
  for (const Kind& kind : kKinds) {
    for (const int64_t directions : {1, 2}) {
      for (const bool last : {false, true}) {
        Model m(kReal, {kSteps, kBatch, 6});
        std::vector<NodeAttribute> attributes = kind.attributes();
        attributes.push_back(
            {"direction", std::string(directions == 1 ? "reverse" : "bidirectional")});
        m.add_all(kind.op, "rnn", recurrent_inputs(m, kind, "rnn", "x", 6, false, directions),
                  {"all", "end"}, attributes);
        const int64_t channels = directions * kChannels;
        const std::string v =
            last ? m.add("Transpose", "turn", {"end"}, {{"perm", Wholes{1, 0, 2}}})
                 : m.add("Transpose", "turn", {"all"}, {{"perm", Wholes{2, 0, 1, 3}}});
        const std::string flat =
            m.add("Reshape", "flat",
                  {v, m.wholes("shape", last ? Wholes{kBatch, channels}
                                             : Wholes{kBatch, kSteps, channels})});
        const ImportedNetwork network =
            expect_numbers(m, linear(m, "head", flat, channels, 4), 6, true);
        EXPECT_EQ(count_of(network, "reverse"), last ? 1 : 2);
        EXPECT_EQ(count_of(network, kind.ours), directions);
      }
    }
  }
}

// Two layers over sequences of their own lengths; the last state is read.
TEST(OnnxRecurrentLayers, Lengths) {
  const std::vector<int32_t> lengths = {kSteps, 2};
  for (const Kind& kind : kKinds) {
    Model m(kReal, {kSteps, -1, 6});
    m.add_lengths_input("n", -1);
    std::string v = "x";
    for (const int64_t in : {6, 8}) {
      const std::string name = "layer" + std::to_string(in);
      std::vector<std::string> inputs = recurrent_inputs(m, kind, name, v, in, false);
      inputs.emplace_back("n");
      m.add_all(kind.op, name, inputs, {name, name + ".last"}, kind.attributes());
      v = m.add("Squeeze", name + ".s", {name, m.wholes(name + ".axes", {1})});
    }
    v = m.add("Squeeze", "state", {"layer8.last", m.wholes("axes", {0})});
    const ModelData& data = m.finish(linear(m, "head", v, kChannels, 4));
    const auto network = import_sequences(data);
    ASSERT_TRUE(network.ok()) << network.error().message;
    EXPECT_EQ(network->graph.values[network->graph.inputs[1]].name, "lengths");
    const auto examples = numbers(6);
    ThreadPool pool(1);
    const auto expected =
        onnx::evaluate(data,
                       {{"x", given<float>(examples, kReal, true, {6}, 0x1p-12)},
                        {"n", tensor_of("n", ElementType::kInt32, {kBatch}, lengths)}},
                       pool);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    auto run = ImportedRun::create(*network, kBatch, false);
    ASSERT_TRUE(run.ok()) << run.error().message;
    const auto logits = (*run)->logits(examples, {&lengths});
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    expect_near((*expected)[0], *logits, network->graph);
  }
}

// The last states of two layers, of which one is taken, and features side by side.
TEST(OnnxRecurrentLayers, JoinedStatesAndChannels) {
  Model m(kReal, {kSteps, kBatch, 6});
  m.add_all("RNN", "r1", recurrent_inputs(m, kKinds[0], "r1", "x", 6, false), {"h1", "last1"});
  const std::string h = m.add("Squeeze", "s", {"h1", m.wholes("axes", {1})});
  m.add_all("RNN", "r2", recurrent_inputs(m, kKinds[0], "r2", h, kChannels, false),
            {"h2", "last2"});
  const std::string states = m.add("Concat", "states", {"last1", "last2"}, {{"axis", int64_t{0}}});
  const std::string second = m.add("Gather", "second", {states, m.whole("i", -1)});
  const std::string first = m.add("Gather", "first", {states, m.whole("j", 0)});
  const std::string both = m.add("Concat", "both", {second, first}, {{"axis", int64_t{-1}}});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", both, 2 * kChannels, 4), 6, true);
  EXPECT_EQ(count_of(network, "concat"), 2);
  Model parts(kReal, {kBatch, kSteps, 6});
  const std::string cut =
      parts.add("Reshape", "cut", {"x", parts.wholes("shape", {kBatch, kSteps, 3, 2})});
  const std::string twice = parts.add("Concat", "twice", {cut, cut}, {{"axis", int64_t{3}}});
  const std::string flat =
      parts.add("Reshape", "flat", {twice, parts.wholes("all", {kBatch, kSteps, 12})});
  EXPECT_NE(refusal(parts, linear(parts, "head", flat, 12, 4))
                .find("node 'twice' (Concat): joins along something else"),
            std::string::npos);
}

// Zeros behind the end, and starts at the end, are not what layers have here.
TEST(OnnxRecurrentLayers, LengthsThatMatterElsewhereAreRefused) {
  const auto message = [](const std::string& direction) {
    Model m(kReal, {kSteps, kBatch, 6});
    m.add_lengths_input("n", kBatch);
    std::vector<std::string> inputs = recurrent_inputs(m, kKinds[1], "r", "x", 6, false);
    inputs.emplace_back("n");
    m.add("LSTM", "r", inputs, {{"direction", direction}});
    return refusal(m, m.add("Squeeze", "s", {"r", m.wholes("axes", {1})}));
  };
  EXPECT_NE(message("forward").find("has zeros behind the end"), std::string::npos)
      << message("forward");
  EXPECT_NE(message("reverse").find("with lengths only forward is possible"), std::string::npos);
}

TEST(OnnxRecurrentLayers, RecurrentLayersOfOtherKindsAreRefused) {
  const auto message = [](const Kind& kind, std::vector<NodeAttribute> attributes,
                          const std::string& start = "", const std::string& lengths = "") {
    Model m(kReal, {kSteps, kBatch, 6});
    std::vector<std::string> inputs = recurrent_inputs(m, kind, "r", "x", 6, false);
    m.weights("start", {1, kBatch, kChannels});
    m.lengths("short", {kSteps, 2});
    inputs.push_back(lengths);
    inputs.push_back(start);
    m.add(kind.op, "r", inputs, std::move(attributes));
    return refusal(m, m.add("Squeeze", "s", {"r", m.wholes("axes", {1})}));
  };
  const std::vector<std::pair<std::string, std::string>> found = {
      {message(kKinds[2], {}), "linear_before_reset of 0"},
      {message(kKinds[1], {{"clip", 3.0f}}), "clips its gates"},
      {message(kKinds[1], {{"input_forget", int64_t{1}}}), "couples its gates"},
      {message(kKinds[0], {{"activations", std::vector<std::string>{"Relu"}}}),
       "other functions than Tanh"},
      {message(kKinds[1], {}, "start"), "starts with a state other than zeros"},
      {message(kKinds[0], {}, "", "short"), "constant lengths other than all"},
  };
  for (const auto& [text, wanted] : found) {
    EXPECT_NE(text.find("node 'r'"), std::string::npos) << text;
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace mantissa::testing
