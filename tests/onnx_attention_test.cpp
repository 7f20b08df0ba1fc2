// Attention that exporters spell out is imported as attention, or refused with the reason.
#include <gtest/gtest.h>

#include "tests/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

TEST(OnnxAttention, AttentionWithItsFactorAndMaskInAnyPlace) {
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
TEST(OnnxAttention, PackedProjections) {
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

TEST(OnnxAttention, OtherAttentionIsRefused) {
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

}  // namespace
}  // namespace mantissa::testing
