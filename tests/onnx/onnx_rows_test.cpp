// Softmax as a layer of rows, chosen positions, and biases of attention by distance.
#include <gtest/gtest.h>

#include "onnx/import/rows.h"
#include "ops/attributes.h"
#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

// Over channels as they lie, and over positions: in the middle, and last behind a transposition to
// [N, K, T], as the scores of K sums over a sequence have it.
TEST(OnnxRows, Softmaxes) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string v = linear(m, "first", "x", kChannels, kChannels);
  const std::string shares = m.add("Softmax", "shares", {v}, {{"axis", int64_t{-1}}});
  const std::string turned = m.add("Transpose", "turned", {v}, {{"perm", Wholes{0, 2, 1}}});
  const std::string over = m.add("Softmax", "over", {turned}, {{"axis", int64_t{2}}});
  const std::string back = m.add("Transpose", "back", {over}, {{"perm", Wholes{0, 2, 1}}});
  const std::string middle = m.add("Softmax", "middle", {v}, {{"axis", int64_t{1}}});
  std::string sum = m.add("Add", "sum", {shares, m.add("Mul", "product", {v, back})});
  sum = m.add("Add", "all", {sum, middle});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", sum, kChannels, 4), kChannels);
  std::vector<ops::ReducedAxes> found;
  for (const Node& node : network.graph.nodes) {
    if (node.op->name == std::string("softmax")) {
      found.push_back(node.attributes.as<ops::ReduceAttributes>().over);
    }
  }
  EXPECT_EQ(found, (std::vector{ops::ReducedAxes::kChannels, ops::ReducedAxes::kPositions,
                                ops::ReducedAxes::kPositions}));
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

// Rows at places by an index for each element, and rows that are put into zeros: by elements, by
// rows after a transposition, and by all coordinates.
TEST(OnnxRows, PlacesOfElementsAndCoordinates) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const auto spread = [&](const std::string& name, const Wholes& places) {
    const std::string row = m.add("Reshape", name + ".row",
                                  {m.wholes(name, places), m.wholes(name + ".to", {1, -1, 1})});
    const auto rows = std::ssize(places);
    return m.add("Expand", name + ".all", {row, m.wholes(name + ".e", {kBatch, rows, kChannels})});
  };
  const auto zeros = [&](const std::string& name, Wholes dims) {
    return m.add("ConstantOfShape", name, {m.wholes(name + ".dims", std::move(dims))});
  };
  std::string v = linear(m, "first", "x", kChannels, kChannels);
  v = m.add("GatherElements", "some", {v, spread("places", {4, 0, 0})}, {{"axis", int64_t{1}}});
  const std::string into = zeros("z1", {kBatch, 7, kChannels});
  v = m.add("ScatterElements", "put", {into, spread("to", {5, -7, 3}), v}, {{"axis", int64_t{1}}});
  v = m.add("Transpose", "steps", {v}, {{"perm", Wholes{1, 0, 2}}});
  const std::string column = m.add(
      "Reshape", "column", {m.wholes("list", {8, 0, 2, 1, 6, 3, 5}), m.wholes("c", {7, 1})});
  v = m.add("ScatterND", "again", {zeros("z2", {9, kBatch, kChannels}), column, v});
  v = m.add("Transpose", "back", {v}, {{"perm", Wholes{1, 0, 2}}});
  Wholes all;  // of each number its example, its place and its channel
  for (int64_t i = 0; i < kBatch * 9 * kChannels; ++i) {
    all.insert(all.end(), {i / 9 / kChannels, 2 + i / kChannels % 9, i % kChannels});
  }
  const std::string coordinates =
      m.add("Reshape", "coordinates",
            {m.wholes("all", all), m.wholes("d", {kBatch, 9, kChannels, 3})});
  v = m.add("ScatterND", "shifted", {zeros("z3", {kBatch, 12, kChannels}), coordinates, v});
  const std::string pairs =
      m.add("Reshape", "pairs", {m.wholes("p", {1, 0, 11, 11}), m.wholes("two", {2, 2})});
  v = m.add("Gather", "matrix", {v, pairs}, {{"axis", int64_t{1}}});
  v = m.add("Reshape", "rows", {v, m.wholes("r", {kBatch, 4, kChannels})});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", v, kChannels, 4), kChannels);
  EXPECT_EQ(count_of(network, "gather_rows"), 2);
  EXPECT_EQ(count_of(network, "scatter_rows"), 3);
}

TEST(OnnxRows, PlacesThatAreNoRowsAreRefused) {
  const auto refused = [](const Wholes& places, float zero, const char* reduction) {
    Model m(kReal, {kBatch, kSteps, kChannels});
    const std::string at =
        m.add("Reshape", "at",
              {m.wholes("all", places), m.wholes("d", {kBatch, kSteps, kChannels})});
    const std::string into = m.numbers("into", {kBatch, 9, kChannels},
                                       std::vector<float>(kBatch * 9 * kChannels, zero));
    return refusal(m, m.add("ScatterElements", "put", {into, at, "x"},
                            {{"axis", int64_t{1}}, {"reduction", std::string(reduction)}}));
  };
  Wholes places;
  for (int64_t i = 0; i < kBatch * kSteps * kChannels; ++i) {
    places.push_back(i / kChannels % kSteps);
  }
  EXPECT_NE(refused(places, 1, "none").find("puts rows into a value"), std::string::npos);
  EXPECT_NE(refused(places, 0, "mul").find("puts rows by 'mul'"), std::string::npos);
  Wholes twice = places;
  for (int64_t& place : twice) place = std::min<int64_t>(place, 3);
  EXPECT_NE(refused(twice, 0, "add").find("puts two rows at position 3"), std::string::npos)
      << refused(twice, 0, "add");
  places[3] = 8;
  EXPECT_NE(refused(places, 0, "none").find("has other places for each number"), std::string::npos);
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
