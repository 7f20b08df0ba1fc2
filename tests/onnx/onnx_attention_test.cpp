// Attention that exporters spell out is imported as attention, or refused with the reason.
#include <gtest/gtest.h>

#include "ops/attributes.h"
#include "tests/onnx/onnx_sequence_models.h"

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
          EXPECT_EQ(node.attributes.as<ops::AttentionAttributes>().causal, mask > 0);
          EXPECT_EQ(node.attributes.as<ops::AttentionAttributes>().heads, 2);
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
  EXPECT_EQ(message(same, 0.4f), "imported");
  EXPECT_NE(message([](Model& m, const std::string& s) {
              return m.add("Add", "bias", {s, m.weights("b", {kSteps, kSteps})});
            }).find("adds numbers to attention's scores"),
            std::string::npos);
  EXPECT_NE(message([](Model& m, const std::string& s) {
              return m.add("Add", "bias", {s, causal_mask(m, -INFINITY, 0)});
            }).find("only such masks are possible"),
            std::string::npos);
  EXPECT_NE(message([](Model& m, const std::string& s) {
              return m.add("Relu", "r", {s});
            }).find("node 'r' (Relu)"),
            std::string::npos);
}

// Scores of two heads, with the model's mask of padding: of transformers (1 is seen), added; or of
// PyTorch (true is hidden), chosen.
std::string masked(Model& m, const std::string& scores, bool hides, bool causal) {
  std::string s = scores;
  if (causal) s = m.add("Add", "past", {s, causal_mask(m, 0, -INFINITY)});
  const std::string axes = m.wholes("axes", {1, 2});
  if (hides) {
    m.add_input("key_padding_mask", ElementType::kBool, {kBatch, kSteps});
    const std::string keys = m.add("Unsqueeze", "keys", {"key_padding_mask", axes});
    return m.add("Where", "masked", {keys, m.number("low", -1e30f), s});
  }
  m.add_input("attention_mask", kWhole, {kBatch, kSteps});
  const std::string seen = m.add("Cast", "seen", {"attention_mask"}, {{"to", int64_t{1}}});
  const std::string hidden = m.add("Sub", "hidden", {m.number("one", 1), seen});
  const std::string numbers = m.add("Mul", "numbers", {hidden, m.number("low", -3e38f)});
  return m.add("Add", "masked", {s, m.add("Unsqueeze", "keys", {numbers, axes})});
}

std::string masked_attention(Model& m, bool hides, bool causal, const std::string& from = "x") {
  const Heads h = heads_of(m, from);
  const std::string scores = m.add("MatMul", "scores", {h.q, h.k});
  const std::string scaled = m.add("Mul", "scaled", {scores, m.number("half", 0.5f)});
  const std::string p =
      m.add("Softmax", "soft", {masked(m, scaled, hides, causal)}, {{"axis", int64_t{-1}}});
  return join_heads(m, m.add("MatMul", "attend", {p, h.v}));
}

// The mask becomes lengths. Rows of padding are zeros in our attention, and are not compared.
TEST(OnnxAttention, MasksOfPadding) {
  const std::vector<int32_t> lengths = {2, kSteps};
  for (const bool hides : {false, true}) {
    for (const bool causal : {false, true}) {
      Model m(kReal, {kBatch, kSteps, kChannels});
      const std::string y = masked_attention(m, hides, causal);
      const ModelData& data = m.finish(linear(m, "head", y, kChannels, 4));
      const auto network = import_sequences(data);
      ASSERT_TRUE(network.ok()) << network.error().message;
      EXPECT_EQ(network->graph.values[network->graph.inputs[1]].name, "lengths");
      const auto examples = numbers(kChannels);
      onnx::Tensors inputs = {{"x", given<float>(examples, kReal, false, {kChannels}, 0x1p-12)}};
      std::vector<int64_t> seen;
      std::vector<uint8_t> hidden;
      for (const int32_t length : lengths) {
        for (int64_t t = 0; t < kSteps; ++t) seen.push_back(t < length ? 1 : 0);
      }
      for (const int64_t one : seen) hidden.push_back(static_cast<uint8_t>(1 - one));
      inputs["attention_mask"] = tensor_of("attention_mask", kWhole, {kBatch, kSteps}, seen);
      if (hides) {
        inputs.erase("attention_mask");
        inputs["key_padding_mask"] =
            tensor_of("key_padding_mask", ElementType::kBool, {kBatch, kSteps}, hidden);
      }
      ThreadPool pool(1);
      const auto expected = onnx::evaluate(data, inputs, pool);
      ASSERT_TRUE(expected.ok()) << expected.error().message;
      auto run = ImportedRun::create(*network, kBatch, false);
      ASSERT_TRUE(run.ok()) << run.error().message;
      const auto logits = (*run)->logits(examples, {&lengths});
      ASSERT_TRUE(logits.ok()) << logits.error().message;
      const auto* wanted = reinterpret_cast<const float*>((*expected)[0].bytes.data());
      ASSERT_EQ(logits->size() * sizeof(float), (*expected)[0].bytes.size());
      for (size_t i = 0; i < logits->size(); ++i) {
        if (seen[i / 4] == 0) continue;
        EXPECT_NEAR((*logits)[i], wanted[i], 1e-5) << i;
      }
    }
  }
}

// BERT's inputs: tokens, a mask of padding, and the text that each token is of.
TEST(OnnxAttention, TokenTypesBecomeSegments) {
  Model m(kWhole, {kBatch, kSteps});
  m.add_input("token_type_ids", kWhole, {kBatch, kSteps});
  const std::string words =
      m.add("Gather", "word", {m.weights("words", {kTokens, kChannels}, -1, 1), "x"});
  const std::string types =
      m.add("Gather", "type", {m.weights("types", {2, kChannels}, -1, 1), "token_type_ids"});
  const std::string sum = m.add("Add", "sum", {words, types});
  const std::string y = masked_attention(m, false, false, sum);
  const ModelData& data = m.finish(linear(m, "head", y, kChannels, 4));
  const auto network = import_sequences(data);
  ASSERT_TRUE(network.ok()) << network.error().message;
  std::vector<std::string> names;
  for (const int input : network->graph.inputs) {
    names.push_back(network->graph.values[input].name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"tokens", "segments", "lengths", "labels"}));

  const std::vector<int32_t> words_given = tokens(), lengths = {kSteps, 3};
  std::vector<int32_t> segments;
  std::vector<int64_t> seen, types_given;
  for (int64_t i = 0; i < kBatch * kSteps; ++i) {
    segments.push_back(static_cast<int32_t>(i % kSteps > 1));
    types_given.push_back(segments.back());
    seen.push_back(i % kSteps < lengths[i / kSteps] ? 1 : 0);
  }
  const onnx::Tensors inputs = {
      {"x", given<int64_t>(words_given, kWhole, false, {}, 1)},
      {"attention_mask", tensor_of("attention_mask", kWhole, {kBatch, kSteps}, seen)},
      {"token_type_ids", tensor_of("token_type_ids", kWhole, {kBatch, kSteps}, types_given)}};
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(data, inputs, pool);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  auto run = ImportedRun::create(*network, kBatch, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto logits = (*run)->logits(words_given, {&segments, &lengths});
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  const auto* wanted = reinterpret_cast<const float*>((*expected)[0].bytes.data());
  for (size_t i = 0; i < logits->size(); ++i) {
    if (seen[i / 4] == 0) continue;
    EXPECT_NEAR((*logits)[i], wanted[i], 1e-5) << i;
  }
}

TEST(OnnxAttention, PaddingThatSomethingElseReadsIsRefused) {
  Model mean(kReal, {kBatch, kSteps, kChannels});
  std::string y = masked_attention(mean, false, false);
  y = mean.add("ReduceMean", "mean", {y, mean.wholes("steps", {1})}, {{"keepdims", int64_t{0}}});
  EXPECT_EQ(refusal(mean, linear(mean, "head", y, kChannels, 4)),
            "1 node cannot be imported: node 'mean' (ReduceMean): reads padding, which the model's "
            "mask hides from attention alone");
  Model first(kReal, {kBatch, kSteps, kChannels});
  y = masked_attention(first, false, false);
  y = first.add("Gather", "first", {y, first.whole("zero", 0)}, {{"axis", int64_t{1}}});
  EXPECT_EQ(refusal(first, linear(first, "head", y, kChannels, 4)), "imported");
  // The number of tokens that are seen becomes a factor.
  Model counted(kReal, {kBatch, kSteps, kChannels});
  y = masked_attention(counted, false, false);
  const std::string count = counted.add("ReduceSum", "count", {"seen"}, {{"keepdims", int64_t{0}}});
  y = counted.add("Mul", "scaled.rows", {y, count});
  EXPECT_EQ(refusal(counted, linear(counted, "head", y, kChannels, 4)),
            "the mask of padding is read by something else than attention");
}

}  // namespace
}  // namespace mantissa::testing
