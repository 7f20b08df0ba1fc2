// Imported networks whose pictures become sequences compute what ONNX's description says: vision
// transformers, and recurrent layers over the rows of a picture. tests/long/onnx/onnx_sequences compares
// exports of PyTorch.
#include <gtest/gtest.h>

#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kSide = 8, kPatches = 4;  // patches of 4x4 pixels

// The patches of a picture as [N, T, C], in one of the ways that people write.
std::string patches(Model& m, int form) {
  const std::string map =
      m.add("Conv", "patches",
            {"x", m.weights("patches.weight", {kChannels, 1, 4, 4}, -1, 1), m.weights("b", {kChannels})},
            {{"strides", Wholes{4, 4}}});
  if (form == 0) {
    const std::string flat =
        m.add("Reshape", "flat", {map, m.wholes("shape", {kBatch, kChannels, kPatches})});
    return m.add("Transpose", "turned", {flat}, {{"perm", Wholes{0, 2, 1}}});
  }
  const std::string last = m.add("Transpose", "last", {map}, {{"perm", Wholes{0, 2, 3, 1}}});
  return m.add("Reshape", "flat", {last, m.wholes("shape", {0, -1, kChannels})});
}

// A norm, attention of two heads, and the sum with its input.
std::string attend(Model& m, const std::string& x, int64_t positions) {
  const std::string y = m.add("LayerNormalization", "norm",
                              {x, m.weights("norm.weight", {kChannels}, 0.5, 2),
                               m.weights("norm.bias", {kChannels})});
  const std::string shape = m.wholes("split", {kBatch, positions, 2, kChannels / 2});
  const auto part = [&](const std::string& name, const Wholes& perm) {
    const std::string cut =
        m.add("Reshape", name + ".cut", {linear(m, name, y, kChannels, kChannels), shape});
    return m.add("Transpose", name + ".heads", {cut}, {{"perm", perm}});
  };
  const std::string scores =
      m.add("MatMul", "scores", {part("q", {0, 2, 1, 3}), part("k", {0, 2, 3, 1})});
  const std::string weights = m.add(
      "Softmax", "weights", {m.add("Mul", "scaled", {scores, m.number("half", 0.5f)})},
      {{"axis", int64_t{-1}}});
  const std::string heads = m.add("MatMul", "heads", {weights, part("v", {0, 2, 1, 3})});
  const std::string rows = m.add("Transpose", "rows", {heads}, {{"perm", Wholes{0, 2, 1, 3}}});
  const std::string joined =
      m.add("Reshape", "joined", {rows, m.wholes("all", {kBatch, positions, kChannels})});
  return m.add("Add", "sum", {x, joined});
}

std::string token_of(Model& m, const std::string& x) {
  const std::string token = m.add(
      "Expand", "token", {m.weights("cls", {1, 1, kChannels}), m.wholes("to", {kBatch, 1, kChannels})});
  return m.add("Concat", "with_token", {token, x}, {{"axis", int64_t{1}}});
}

TEST(OnnxPictureRows, VisionTransformersWithAToken) {
  for (const int form : {0, 1}) {
    Model m(1, kSide, kSide);
    std::string v = token_of(m, patches(m, form));
    v = m.add("Add", "placed", {v, m.weights("positions", {1, kPatches + 1, kChannels})});
    v = attend(m, v, kPatches + 1);
    v = m.add("Gather", "chosen", {v, m.whole("first", 0)}, {{"axis", int64_t{1}}});
    const ImportedNetwork network = expect_same(m, linear(m, "head", v, kChannels, 4));
    EXPECT_EQ(count_of(network, "prepend_rows"), 1);
    EXPECT_EQ(count_of(network, "position_embedding"), 1);
    EXPECT_EQ(count_of(network, "attention"), 1);
    EXPECT_EQ(count_of(network, "reshape"), 1);
    EXPECT_EQ(count_of(network, "slice"), 1);
  }
}

// Without a token: positions are the first constant, or there are none.
TEST(OnnxPictureRows, VisionTransformersOfTheMean) {
  for (const bool has_positions : {false, true}) {
    Model m(1, kSide, kSide);
    std::string v = patches(m, 0);
    if (has_positions) {
      v = m.add("Add", "placed", {m.weights("positions", {1, kPatches, kChannels}), v});
    }
    v = attend(m, v, kPatches);
    v = m.add("ReduceMean", "mean", {v}, {{"axes", Wholes{1}}, {"keepdims", int64_t{0}}});
    const ImportedNetwork network = expect_same(m, linear(m, "head", v, kChannels, 4));
    EXPECT_EQ(count_of(network, "position_embedding"), has_positions ? 1 : 0);
    EXPECT_EQ(count_of(network, "global_average_pool"), 1);
  }
}

// Two sequences one after the other, and a constant that differs between examples.
TEST(OnnxPictureRows, SequencesThatAreJoined) {
  Model m(1, kSide, kSide);
  const std::string v = patches(m, 1);
  const std::string wide = linear(m, "wide", v, kChannels, kChannels);
  const std::string both = m.add("Concat", "both", {v, wide, v}, {{"axis", int64_t{1}}});
  const ImportedNetwork network = expect_same(
      m, linear(m, "head", m.add("Gather", "one", {both, m.whole("i", 5)}, {{"axis", int64_t{1}}}),
                kChannels, 4));
  EXPECT_EQ(count_of(network, "concat_positions"), 1);

  const auto refused = [](const std::function<std::string(Model&, const std::string&)>& joined) {
    Model other(1, kSide, kSide);
    const std::string value = joined(other, patches(other, 1));
    const auto found = imported(other.finish(linear(other, "head", value, kChannels, 4)));
    return found.ok() ? "imported" : found.error().message;
  };
  EXPECT_NE(refused([](Model& o, const std::string& x) {
              return o.add("Concat", "joined", {o.weights("c", {kBatch, 2, kChannels}), x},
                           {{"axis", int64_t{1}}});
            }).find("differs between examples"),
            std::string::npos);
  EXPECT_NE(refused([](Model& o, const std::string& x) {
              return o.add("Concat", "joined", {x, o.weights("c", {kBatch, 2, kChannels})},
                           {{"axis", int64_t{1}}});
            }).find("'joined' (Concat)"),
            std::string::npos);
}

// The rows of a picture as steps, with the factor of pixels in the weights.
TEST(OnnxPictureRows, RecurrentLayersOverRows) {
  for (const Kind& kind : kKinds) {
    for (const int64_t directions : {1, 2}) {
      Model m(1, 6, 5);
      std::string v = m.add("Squeeze", "rows", {"x", m.wholes("axes", {1})});
      v = m.add("Transpose", "steps", {v}, {{"perm", Wholes{1, 0, 2}}});
      auto attributes = kind.attributes();
      attributes.push_back({"hidden_size", kChannels});
      if (directions == 2) attributes.push_back({"direction", std::string("bidirectional")});
      m.add_all(kind.op, "layer", recurrent_inputs(m, kind, "layer", v, 5, false, directions),
                {"all", "last"}, attributes);
      v = m.add("Transpose", "turned", {"all"}, {{"perm", Wholes{2, 0, 1, 3}}});
      v = m.add("Reshape", "joined", {v, m.wholes("shape", {kBatch, 6, directions * kChannels})});
      v = m.add("Gather", "chosen", {v, m.whole("i", -1)}, {{"axis", int64_t{1}}});
      const ImportedNetwork network =
          expect_same(m, linear(m, "head", v, directions * kChannels, 4));
      EXPECT_EQ(count_of(network, kind.ours), directions);
    }
  }
}

TEST(OnnxPictureRows, ColourDoesNotBecomeRowsBeforeALayer) {
  Model m(3, 6, 5);
  std::string v = m.add("Reshape", "rows", {"x", m.wholes("shape", {kBatch, 18, 5})});
  v = m.add("Transpose", "steps", {v}, {{"perm", Wholes{1, 0, 2}}});
  m.add_all("GRU", "layer", recurrent_inputs(m, kKinds[2], "layer", v, 5, false), {"all", "last"},
            {{"hidden_size", kChannels}, {"linear_before_reset", int64_t{1}}});
  v = m.add("Squeeze", "state", {"last", m.wholes("axes", {0})});
  const auto found = imported(m.finish(linear(m, "head", v, kChannels, 4)));
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("rearranges pixels before the first layer"),
            std::string::npos)
      << found.error().message;
}

}  // namespace
}  // namespace mantissa::testing
