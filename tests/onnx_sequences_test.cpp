// Imported networks of sequences compute what ONNX's description says, built in memory and in fp32,
// and train. tests/long/onnx_sequences compares exports of PyTorch.
#include <gtest/gtest.h>

#include "tests/onnx_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kBatch = Model::kBatch, kSteps = 5, kChannels = 8, kTokens = 9;
constexpr ElementType kReal = ElementType::kFloat, kWhole = ElementType::kInt64;

Result<ImportedNetwork> import_sequences(const ModelData& model, int64_t sequence = 0) {
  return onnx::import_network(model,
                              {.mean = {}, .deviation = {}, .output = "", .sequence = sequence});
}

// Mantissas at 2^-12, [N, T, C], or tokens, [N, T].
std::vector<int16_t> numbers(int64_t channels) {
  std::vector<int16_t> all(static_cast<size_t>(kBatch * kSteps * channels));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int16_t>(uniform("numbers", static_cast<int64_t>(i)) * 16384 - 8192);
  }
  return all;
}
std::vector<int32_t> tokens() {
  std::vector<int32_t> all(static_cast<size_t>(kBatch * kSteps));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int32_t>(uniform("tokens", static_cast<int64_t>(i)) * kTokens);
  }
  return all;
}

// As the model wants them: with `steps_first` positions before examples.
template <typename To, typename From>
TensorData given(const std::vector<From>& from, ElementType type, bool steps_first, Wholes more,
                 double unit) {
  const int64_t size = std::ssize(from) / (kBatch * kSteps);
  std::vector<To> to(from.size());
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t t = 0; t < kSteps; ++t) {
      const int64_t row = steps_first ? t * kBatch + n : n * kSteps + t;
      for (int64_t c = 0; c < size; ++c) {
        to[row * size + c] = static_cast<To>(from[(n * kSteps + t) * size + c] * unit);
      }
    }
  }
  Wholes dims = steps_first ? Wholes{kSteps, kBatch} : Wholes{kBatch, kSteps};
  dims.insert(dims.end(), more.begin(), more.end());
  return tensor_of("x", type, dims, std::move(to));
}

// The result, [N, ...] or [N, T, ...], is compared with a plain evaluation.
template <typename From>
ImportedNetwork compare(Model& model, const std::string& output, const TensorData& x,
                        const std::vector<From>& examples, int64_t sequence) {
  const ModelData& data = model.finish(output);
  auto network = import_sequences(data, sequence);
  EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
  if (!network.ok()) return {};
  expect_json(*network);
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(data, {{"x", x}}, pool);
  EXPECT_TRUE(expected.ok()) << (expected.ok() ? "" : expected.error().message);
  auto run = ImportedRun::create(*network, kBatch, false);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
  if (!run.ok() || !expected.ok()) return {};
  const auto logits = (*run)->logits(examples);
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
  if (logits.ok()) expect_near((*expected)[0], *logits, network->graph);
  return std::move(*network);
}

ImportedNetwork expect_numbers(Model& model, const std::string& output, int64_t channels,
                               bool steps_first = false, int64_t sequence = 0) {
  const auto examples = numbers(channels);
  return compare(model, output, given<float>(examples, kReal, steps_first, {channels}, 0x1p-12),
                 examples, sequence);
}

ImportedNetwork expect_tokens(Model& model, const std::string& output, bool steps_first = false,
                              int64_t sequence = 0) {
  const auto examples = tokens();
  return compare(model, output, given<int64_t>(examples, kWhole, steps_first, {}, 1), examples,
                 sequence);
}

std::string refusal(Model& model, const std::string& output) {
  const auto network = import_sequences(model.finish(output));
  return network.ok() ? "imported" : network.error().message;
}

std::string linear(Model& m, const std::string& name, const std::string& from, int64_t in,
                   int64_t out) {
  const std::string product =
      m.add("MatMul", name + ".product", {from, m.weights(name + ".w", {in, out})});
  return m.add("Add", name, {m.weights(name + ".bias", {out}), product});
}

struct Kind {
  const char* op;
  int64_t gates;
  const char* ours;

  // The form that is possible, of GRU.
  std::vector<NodeAttribute> attributes() const {
    if (gates != 3) return {};
    return {{"linear_before_reset", int64_t{1}}};
  }
};
constexpr Kind kKinds[] = {{"RNN", 1, "rnn"}, {"LSTM", 4, "lstm"}, {"GRU", 3, "gru"}};

// W, R, B, no lengths, a start of zeros, and peepholes.
std::vector<std::string> recurrent_inputs(Model& m, const Kind& kind, const std::string& name,
                                          const std::string& x, int64_t in, bool more,
                                          int64_t directions = 1) {
  const int64_t rows = kind.gates * kChannels;
  std::vector<std::string> inputs = {x, m.weights(name + "W", {directions, rows, in}, -1, 1),
                                     m.weights(name + "R", {directions, rows, kChannels}, -1, 1),
                                     m.weights(name + "B", {directions, 2 * rows}, -1, 1)};
  if (!more) return inputs;
  inputs.push_back("");
  inputs.push_back(m.weights(name + "h", {1, kBatch, kChannels}, 0, 0));
  if (kind.gates == 4) {
    inputs.push_back(inputs.back());
    inputs.push_back(m.weights(name + "P", {1, 3 * kChannels}, -1, 1));
  }
  return inputs;
}

TEST(OnnxSequences, RecurrentLayersWithPeepholesAndStartsOfZeros) {
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
TEST(OnnxSequences, LastStates) {
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
TEST(OnnxSequences, Directions) {
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
TEST(OnnxSequences, Lengths) {
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
    const auto logits = (*run)->logits(examples, lengths);
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    expect_near((*expected)[0], *logits, network->graph);
  }
}

// The last states of two layers, of which one is taken, and features side by side.
TEST(OnnxSequences, JoinedStatesAndChannels) {
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
  Model positions(kReal, {kBatch, kSteps, 6});
  const std::string twice = positions.add("Concat", "twice", {"x", "x"}, {{"axis", int64_t{1}}});
  EXPECT_NE(refusal(positions, linear(positions, "head", twice, 6, 4))
                .find("node 'twice' (Concat): joins along something else"),
            std::string::npos);
}

// Zeros behind the end, and starts at the end, are not what layers have here.
TEST(OnnxSequences, LengthsThatMatterElsewhereAreRefused) {
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

TEST(OnnxSequences, RecurrentLayersOfOtherKindsAreRefused) {
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

// Queries, keys and values of two heads, [N, H, T, D] each; keys [N, H, D, T].
struct Heads {
  std::string q, k, v;
};
Heads heads_of(Model& m, const std::string& from) {
  const std::string shape = m.wholes("split", {kBatch, kSteps, 2, kChannels / 2});
  const auto part = [&](const std::string& name, const Wholes& perm) {
    const std::string cut =
        m.add("Reshape", name + ".cut", {linear(m, name, from, kChannels, kChannels), shape});
    return m.add("Transpose", name + ".heads", {cut}, {{"perm", perm}});
  };
  return {part("q", {0, 2, 1, 3}), part("k", {0, 2, 3, 1}), part("v", {0, 2, 1, 3})};
}

std::string join_heads(Model& m, const std::string& from) {
  const std::string turned = m.add("Transpose", "join.t", {from}, {{"perm", Wholes{0, 2, 1, 3}}});
  return m.add("Reshape", "join", {turned, m.wholes("joined", {kBatch, kSteps, kChannels})});
}

std::string causal_mask(Model& m, float below, float above) {
  std::vector<float> mask;
  for (int64_t i = 0; i < kSteps * kSteps; ++i) {
    mask.push_back(i % kSteps > i / kSteps ? above : below);
  }
  return m.numbers("mask", {1, 1, kSteps, kSteps}, mask);
}

TEST(OnnxSequences, AttentionWithItsFactorAndMaskInAnyPlace) {
  // Factor: on scores, as Mul or Div, or on queries and keys. Mask: none, added, chosen.
  for (const int factor : {0, 1, 2}) {
    for (const int mask : {0, 1, 2, 3}) {
      Model m(kReal, {kBatch, kSteps, kChannels});
      Heads h = heads_of(m, "x");
      if (factor == 2) {
        const std::string root = m.number("root", 0.70710678f);  // squared: 1/2
        h.q = m.add("Mul", "q.scaled", {h.q, root});
        h.k = m.add("Mul", "k.scaled", {root, h.k});
      }
      std::string s = m.add("MatMul", "scores", {h.q, h.k});
      if (factor == 0) s = m.add("Mul", "scaled", {s, m.number("half", 0.5f)});
      if (factor == 1) s = m.add("Div", "scaled", {s, m.number("two", 2)});
      if (mask == 1) s = m.add("Add", "masked", {s, causal_mask(m, 0, -INFINITY)});
      if (mask > 1) {
        const std::string cond =
            m.add("Cast", "cond", {causal_mask(m, mask == 2, mask == 3)}, {{"to", int64_t{9}}});
        const std::string low = m.number("low", -1e9f);
        s = mask == 2 ? m.add("Where", "masked", {cond, s, low})
                      : m.add("Where", "masked", {cond, low, s});
      }
      std::string p = m.add("Softmax", "soft", {s}, {{"axis", int64_t{-1}}});
      if (mask == 2) {  // PyTorch's guard of rows without keys
        const std::string none = m.add("IsNaN", "none", {p});
        p = m.add("Where", "guarded", {none, m.number("zero", 0), p});
      }
      const std::string y = m.add("MatMul", "attend", {p, h.v});
      const ImportedNetwork network =
          expect_numbers(m, linear(m, "head", join_heads(m, y), kChannels, 4), kChannels);
      ASSERT_EQ(count_of(network, "attention"), 1);
      for (const Node& node : network.graph.nodes) {
        if (node.name == "attend") {
          EXPECT_EQ(node.attributes.is_set("causal"), mask > 0);
          EXPECT_EQ(node.attributes.whole("heads"), 2);
        }
      }
    }
  }
}

// PyTorch's MultiheadAttention: positions first, one layer for queries, keys and values, heads and
// examples in one dimension.
TEST(OnnxSequences, PackedProjections) {
  Model m(kReal, {kSteps, kBatch, kChannels});
  const std::string packed = m.add("Reshape", "packed",
                                   {linear(m, "qkv", "x", kChannels, 3 * kChannels),
                                    m.wholes("p", {kSteps, kBatch, 3, kChannels})});
  const std::string front = m.add("Transpose", "front", {packed}, {{"perm", Wholes{2, 0, 1, 3}}});
  std::vector<std::string> parts;
  for (const int64_t i : {0, 1, 2}) {
    const std::string name = "part" + std::to_string(i);
    const std::string part = m.add("Gather", name, {front, m.whole(name + ".i", i)});
    const std::string cut =
        m.add("Reshape", name + ".cut",
              {part, m.wholes(name + ".d", {kSteps, 2 * kBatch, kChannels / 2})});
    parts.push_back(m.add("Transpose", name + ".t", {cut},
                          {{"perm", i == 1 ? Wholes{1, 2, 0} : Wholes{1, 0, 2}}}));
  }
  std::string s = m.add("MatMul", "scores", {parts[0], parts[1]});
  s = m.add("Mul", "scaled", {s, m.number("half", 0.5f)});
  s = m.add("Softmax", "soft", {s});
  s = m.add("MatMul", "attend", {s, parts[2]});
  s = m.add("Transpose", "back", {s}, {{"perm", Wholes{1, 0, 2}}});
  s = m.add("Reshape", "rows", {s, m.wholes("r", {kSteps * kBatch, kChannels})});
  s = m.add("Gemm", "project",
            {s, m.weights("project.weight", {kChannels, kChannels}),
             m.weights("project.bias", {kChannels})},
            {{"transB", int64_t{1}}});
  s = m.add("Reshape", "steps", {s, m.wholes("back.d", {kSteps, kBatch, kChannels})});
  s = m.add("Add", "sum", {"x", s});
  s = m.add("ReduceMean", "mean", {s, m.wholes("axes", {0})}, {{"keepdims", int64_t{0}}});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", s, kChannels, 4), kChannels, true);
  EXPECT_EQ(count_of(network, "attention"), 1);
  EXPECT_EQ(count_of(network, "slice"), 3);
}

TEST(OnnxSequences, OtherAttentionIsRefused) {
  const auto message = [](const std::function<std::string(Model&, const std::string&)>& change,
                          float factor = 0.5f) {
    Model m(kReal, {kBatch, kSteps, kChannels});
    const Heads h = heads_of(m, "x");
    std::string s = m.add("MatMul", "scores", {h.q, h.k});
    s = change(m, m.add("Mul", "scaled", {s, m.number("factor", factor)}));
    const std::string p = m.add("Softmax", "soft", {s});
    return refusal(m, join_heads(m, m.add("MatMul", "attend", {p, h.v})));
  };
  const auto same = [](Model&, const std::string& s) { return s; };
  EXPECT_NE(message(same, 0.4f).find("multiplies scores by 0.4"), std::string::npos);
  EXPECT_NE(message([](Model& m, const std::string& s) {
              return m.add("Add", "bias", {s, m.weights("b", {kSteps, kSteps})});
            }).find("adds numbers to attention's scores"),
            std::string::npos);
  EXPECT_NE(message([](Model& m, const std::string& s) {
              return m.add("Add", "bias", {s, causal_mask(m, -INFINITY, 0)});
            }).find("only a causal mask is possible"),
            std::string::npos);
  EXPECT_NE(message([](Model& m, const std::string& s) {
              return m.add("Relu", "r", {s});
            }).find("node 'r' (Relu)"),
            std::string::npos);
}

// GELU in the forms of exporters, and its approximation, which becomes GELU with a note.
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
  const auto network = import_sequences(m.finish(linear(m, "head", y, 6, 4)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(count_of(*network, "gelu"), 1);
  EXPECT_NE(network->notes.back().find("approximation with tanh"), std::string::npos);
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

TEST(OnnxSequences, OnePosition) {
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
  EXPECT_NE(refusal(m, two).find("more than one position"), std::string::npos);
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
  EXPECT_NE(refusal(m, head).find("node 'mean' (ReduceMean): is a mean of something else"),
            std::string::npos)
      << refusal(m, head);
}

TEST(OnnxSequences, EverythingUnsupportedIsListedAtOnce) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  std::string v = m.add("Conv", "conv", {"x", m.weights("w", {4, kSteps, 1})});
  v = m.add("ScatterND", "scatter", {"x", m.wholes("i", {0}), v});
  const std::string cube = m.add("Mul", "channels", {"x", m.weights("c", {kChannels})});
  const std::string text = refusal(m, m.add("Add", "sum", {cube, v}));
  EXPECT_EQ(text,
            "3 nodes cannot be imported: node 'conv' (Conv): this operator can be imported in "
            "networks of pictures only; node 'scatter' (ScatterND): this operator cannot be "
            "imported; node 'channels' (Mul): multiplies by a constant that is not one number");
}

// A step of SGD moves every parameter; tests/long/onnx_sequences compares gradients with PyTorch.
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
