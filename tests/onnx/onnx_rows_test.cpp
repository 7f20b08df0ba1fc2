// Softmax as a layer of rows, chosen positions, and biases of attention by distance.
#include <gtest/gtest.h>

#include "onnx/import/rows.h"
#include "ops/attributes.h"
#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

// Over channels as they lie, and over positions, which a transposition puts last.
TEST(OnnxRows, Softmaxes) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string v = linear(m, "first", "x", kChannels, kChannels);
  const std::string shares = m.add("Softmax", "shares", {v}, {{"axis", int64_t{-1}}});
  const std::string turned = m.add("Transpose", "turned", {v}, {{"perm", Wholes{0, 2, 1}}});
  const std::string over = m.add("Softmax", "over", {turned}, {{"axis", int64_t{2}}});
  const std::string back = m.add("Transpose", "back", {over}, {{"perm", Wholes{0, 2, 1}}});
  const std::string sum = m.add("Add", "sum", {shares, m.add("Mul", "product", {v, back})});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", sum, kChannels, 4), kChannels);
  std::vector<ops::ReducedAxes> found;
  for (const Node& node : network.graph.nodes) {
    if (node.op->name == std::string("softmax")) {
      found.push_back(node.attributes.as<ops::ReduceAttributes>().over);
    }
  }
  EXPECT_EQ(found, (std::vector{ops::ReducedAxes::kChannels, ops::ReducedAxes::kPositions}));
}

TEST(OnnxRows, PositionsThatDoNotFollowEachOther) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  std::string v = linear(m, "first", "x", kChannels, kChannels);
  v = m.add("Gather", "some", {v, m.wholes("places", {4, 0, 0, 2, -2, 1, 3})},
            {{"axis", int64_t{1}}});
  v = m.add("Slice", "middle",
            {v, m.wholes("from", {1}), m.wholes("to", {6}), m.wholes("axis", {1})});
  v = m.add("Transpose", "steps", {v}, {{"perm", Wholes{1, 0, 2}}});
  const std::string matrix =
      m.add("Reshape", "matrix", {m.wholes("list", {3, 0, 4}), m.wholes("column", {3, 1})});
  v = m.add("GatherND", "again", {v, matrix});
  v = m.add("Transpose", "back", {v}, {{"perm", Wholes{1, 0, 2}}});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", v, kChannels, 4), kChannels);
  EXPECT_EQ(count_of(network, "gather_rows"), 3);
}

// The bias of each head and pair of positions, perhaps with later keys hidden in it.
std::string bias_of_heads(Model& m, bool hides) {
  std::vector<float> numbers;
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t i = 0; i < kSteps; ++i) {
      for (int64_t j = 0; j < kSteps; ++j) {
        const float bias = static_cast<float>(uniform("bias", 100 * head + i - j + 50)) * 4 - 2;
        numbers.push_back(hides && j > i ? -INFINITY : bias);
      }
    }
  }
  return m.numbers("bias", {1, 2, kSteps, kSteps}, numbers);
}

TEST(OnnxRows, BiasesOfAttentionByDistance) {
  for (const bool hides : {false, true}) {
    for (const bool masks : {false, true}) {
      Model m(kReal, {kBatch, kSteps, kChannels});
      const Heads h = heads_of(m, "x");
      std::string s = m.add("MatMul", "scores", {h.q, h.k});
      s = m.add("Mul", "scaled", {s, m.number("half", 0.5f)});
      s = m.add("Add", "biased", {s, bias_of_heads(m, hides)});
      if (masks) s = m.add("Add", "masked", {s, causal_mask(m, 0, -INFINITY)});
      const std::string p = m.add("Softmax", "soft", {s}, {{"axis", int64_t{-1}}});
      const std::string y = m.add("MatMul", "attend", {p, h.v});
      const ImportedNetwork network =
          expect_numbers(m, linear(m, "head", join_heads(m, y), kChannels, 4), kChannels);
      int found = 0;
      for (const Node& node : network.graph.nodes) {
        if (node.name != "attend") continue;
        ++found;
        const auto& attributes = node.attributes.as<ops::AttentionAttributes>();
        EXPECT_EQ(attributes.bias_width, kSteps);
        EXPECT_EQ(attributes.bias_height, 1);
        EXPECT_EQ(attributes.causal, hides || masks);
        const Parameter& bias = network.graph.parameters[node.parameters[0]];
        EXPECT_EQ(bias.shape, (Shape{2, 2 * kSteps - 1}));
      }
      EXPECT_EQ(found, 1);
    }
  }
}

// Numbers [2, 6, 6] of distances in a picture of 2 x 3, and of 3 x 2.
TEST(OnnxRows, BiasesOfPatchesByDistance) {
  for (const int64_t width : {3, 2}) {
    std::vector<double> numbers;
    for (int64_t at = 0; at < 72; ++at) {
      const int64_t head = at / 36, i = at / 6 % 6, j = at % 6;
      numbers.push_back(static_cast<double>(100 * head + 10 * (i / width - j / width) +
                                            (i % width - j % width)) + 0.5);
    }
    onnx::Scores scores;
    ASSERT_TRUE(onnx::add_bias({1, 2, 6, 6}, numbers, 6, 2, scores).ok());
    EXPECT_EQ(scores.bias_width, width);
    EXPECT_EQ(scores.bias_height, 6 / width);
    const int64_t table = (12 / width - 1) * (2 * width - 1);
    ASSERT_EQ(std::ssize(scores.bias), 2 * table);
    // Down and to the right by the most comes last.
    EXPECT_EQ(scores.bias.back(), 100 + 10 * (6 / width - 1) + width - 1 + 0.5);
    EXPECT_FALSE(onnx::add_bias({1, 2, 6, 6}, numbers, 6, 2, scores).ok());  // a second one
    onnx::Scores other;
    numbers[7] += 1;
    EXPECT_FALSE(onnx::add_bias({1, 2, 6, 6}, numbers, 6, 2, other).ok());
  }
}

}  // namespace
}  // namespace mantissa::testing
