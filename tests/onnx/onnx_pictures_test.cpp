// Newer operators of pictures, imported from ONNX models built in memory: functions with trained
// slopes, norms of one example, layers over the channels of each pixel, reductions.
#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

TEST(OnnxPictures, SmoothFunctionsAndTrainedSlopes) {
  Model m(2, 8, 8);
  std::string v = m.conv("c1", "x", {6, 2, 3, 3}, {1, 1, 1, 1});
  v = m.add("PRelu", "p1", {v, m.weights("p1.weight", {6, 1, 1}, -0.5, 1.5)});
  v = m.add("Elu", "elu", {v}, {{"alpha", 0.75f}});
  v = m.conv("c2", v, {4, 6, 1, 1}, {0, 0, 0, 0});
  v = m.add("PRelu", "p2", {v, m.weights("p2.weight", {1}, 0.1, 0.4)});
  v = m.add("Selu", "selu", {v});
  v = m.add("Softplus", "softplus", {v});
  v = m.conv("c3", v, {4, 4, 1, 1}, {0, 0, 0, 0});
  v = m.add("Selu", "selu2", {v});
  v = m.conv("c4", v, {4, 4, 3, 3}, {1, 1, 1, 1});
  v = m.add("Celu", "celu", {v});
  // x tanh(softplus(x))
  const std::string bent = m.add("Tanh", "bent", {m.add("Softplus", "bend", {v})});
  v = m.add("Mul", "mish", {v, bent});
  v = m.add("Flatten", "flat0", {m.add("GlobalAveragePool", "mean0", {v})});
  v = m.add("PRelu", "p3", {v, m.weights("p3.weight", {4})});
  v = m.add("Gemm", "fc", {v, m.weights("fc.weight", {5, 4}), m.weights("fc.b", {5})},
            {{"transB", int64_t{1}}});
  const ImportedNetwork network = expect_same(m, v);
  EXPECT_EQ(count_of(network, "prelu"), 3);
  EXPECT_EQ(count_of(network, "elu"), 4);
  EXPECT_EQ(count_of(network, "softplus"), 1);
  EXPECT_EQ(count_of(network, "mish"), 1);
  EXPECT_EQ(count_of(network, "multiply"), 0);
  // c3 reads what Softplus makes, and c4 takes Selu's factor in.
  EXPECT_EQ(count_of(network, "convolution"), 5);
}

TEST(OnnxPictures, NormsOfPictures) {
  Model m(2, 8, 8);
  std::string v = m.conv("c1", "x", {6, 2, 3, 3}, {1, 1, 1, 1});
  v = m.add("Relu", "r1", {v});
  v = m.conv("c2", v, {6, 6, 3, 3}, {1, 1, 1, 1});
  v = m.add("InstanceNormalization", "i1",
            {v, m.weights("i1.weight", {6}, 0.5, 1.5), m.weights("i1.b", {6})});
  v = m.conv("c3", v, {6, 6, 1, 1}, {0, 0, 0, 0});
  // PyTorch's group norm.
  v = m.add("Reshape", "to", {v, m.wholes("three", {0, 3, -1})});
  v = m.add("InstanceNormalization", "in",
            {v, m.numbers("ones", {3}, {1, 1, 1}), m.numbers("zeros", {3}, {0, 0, 0})});
  v = m.add("Reshape", "back", {v, m.wholes("picture", {Model::kBatch, 6, 8, 8})});
  v = m.add("Mul", "times", {v, m.weights("gn.weight", {6, 1, 1}, 0.5, 1.5)});
  v = m.add("Add", "plus", {v, m.weights("gn.bias", {6, 1, 1})});
  v = m.conv("c4", v, {6, 6, 1, 1}, {0, 0, 0, 0});
  // Layer norm over channels, between two transposes, and spelled out.
  v = m.add("Transpose", "last", {v}, {{"perm", Wholes{0, 2, 3, 1}}});
  v = m.add("LayerNormalization", "ln",
            {v, m.weights("ln.weight", {6}, 0.5, 1.5), m.weights("ln.bias", {6})});
  v = m.add("Transpose", "first", {v}, {{"perm", Wholes{0, 3, 1, 2}}});
  v = m.conv("c5", v, {4, 6, 1, 1}, {0, 0, 0, 0});
  const std::vector<NodeAttribute> channels = {{"axes", Wholes{1}}};
  const std::string centred = m.add("Sub", "centred", {v, m.add("ReduceMean", "u", {v}, channels)});
  const std::string square = m.add("Mul", "square", {centred, centred});
  const std::string variance = m.add("ReduceMean", "s", {square}, channels);
  const std::string root =
      m.add("Sqrt", "root", {m.add("Add", "e", {variance, m.number("epsilon", 1e-6f)})});
  v = m.add("Mul", "scaled", {m.weights("n.weight", {4, 1, 1}, 0.5, 1.5),
                              m.add("Div", "normed", {centred, root})});
  v = m.add("Add", "shifted", {v, m.weights("n.bias", {4, 1, 1})});
  const ImportedNetwork network = expect_same(m, classify(m, v, 4));
  EXPECT_EQ(count_of(network, "group_norm"), 2);
  EXPECT_EQ(count_of(network, "layer_norm"), 2);
  EXPECT_EQ(count_of(network, "convolution"), 5);
  EXPECT_EQ(count_of(network, "subtract"), 0);
}

// Numbers for each channel, and as before operator set 21 for each group.
TEST(OnnxPictures, GroupNormsOfBothVersions) {
  for (const int64_t opset : {18, 21}) {
    Model m(2, 8, 8);
    m.set_opset(opset);
    std::string v = m.conv("c1", "x", {6, 2, 3, 3}, {1, 1, 1, 1});
    const int64_t numbers = opset == 18 ? 2 : 6;
    v = m.add("GroupNormalization", "g1",
              {v, m.weights("g1.weight", {numbers}, 0.5, 1.5), m.weights("g1.b", {numbers})},
              {{"num_groups", int64_t{2}}, {"epsilon", 1e-3f}});
    EXPECT_EQ(count_of(expect_same(m, classify(m, v, 6)), "group_norm"), 1);
  }
}

// A block of ConvNeXt: its linear layers are convolutions of one pixel, and take the layer's scale
// in, wherever it stands.
TEST(OnnxPictures, BlocksWithLayersOverChannels) {
  for (const bool scales_last : {false, true}) {
    Model m(3, 8, 8);
    m.set_opset(20);
    const std::string stem = m.conv("stem", "x", {6, 3, 4, 4}, {0, 0, 0, 0},
                                    {{"strides", Wholes{4, 4}}});
    std::string v = m.conv("depthwise", stem, {6, 1, 7, 7}, {3, 3, 3, 3}, {{"group", int64_t{6}}});
    v = m.add("Transpose", "last", {v}, {{"perm", Wholes{0, 2, 3, 1}}});
    v = m.add("LayerNormalization", "ln",
              {v, m.weights("ln.weight", {6}, 0.5, 1.5), m.weights("ln.bias", {6})},
              {{"epsilon", 1e-6f}});
    v = m.add("MatMul", "m1", {v, m.weights("w1", {6, 24})});
    v = m.add("Add", "a1", {v, m.weights("p1.bias", {24})});
    v = m.add("Gelu", "gelu", {v});
    v = m.add("MatMul", "m2", {v, m.weights("w2", {24, 6})});
    v = m.add("Add", "a2", {v, m.weights("p2.bias", {6})});
    if (!scales_last) v = m.add("Mul", "scale", {m.weights("gamma", {6}), v});
    v = m.add("Transpose", "first", {v}, {{"perm", Wholes{0, 3, 1, 2}}});
    if (scales_last) v = m.add("Mul", "scale", {m.weights("gamma", {6, 1, 1}), v});
    v = m.add("Add", "sum", {v, stem});
    const ImportedNetwork network = expect_same(m, classify(m, v, 6));
    EXPECT_EQ(count_of(network, "convolution"), 4);
    EXPECT_EQ(count_of(network, "layer_norm"), 1);
    EXPECT_EQ(count_of(network, "add"), 1);
  }
}

TEST(OnnxPictures, DifferencesSquaresAndReductions) {
  Model m(2, 9, 7);
  const std::string a = m.conv("c1", "x", {4, 2, 3, 3}, {1, 1, 1, 1});
  const std::string b = m.conv("c2", a, {4, 4, 3, 3}, {1, 1, 1, 1});
  std::string v = m.add("Pow", "square", {m.add("Sub", "less", {a, b}), m.number("two", 2)});
  v = m.add("Div", "third", {v, m.number("three", 3)});
  // Axes are an attribute of maxima here.
  const auto reduced = [&](const std::string& op, const std::string& name, Wholes axes,
                           int64_t keepdims, const std::string& from) {
    if (op == "ReduceMax") return m.add(op, name, {from}, {{"axes", axes}, {"keepdims", keepdims}});
    return m.add(op, name, {from, m.wholes(name + ".axes", std::move(axes))},
                 {{"keepdims", keepdims}});
  };
  const std::string largest = reduced("ReduceMax", "largest", {2, 3}, 0, v);
  const std::string sums = reduced("ReduceSum", "sums", {-1, -2}, 0, v);
  // Over the width, then the height.
  const std::string rows = reduced("ReduceSum", "rows", {3}, 0, v);
  const std::string all = reduced("ReduceMax", "all", {2}, 0, rows);
  const std::string gray = reduced("ReduceSum", "gray", {1}, 1, v);
  const std::string map = m.conv("c3", gray, {3, 1, 3, 3}, {1, 1, 1, 1});
  const std::string global = m.add("Flatten", "flat", {m.add("GlobalMaxPool", "gmp", {map})});
  v = m.add("Concat", "both", {largest, sums, all, global}, {{"axis", int64_t{1}}});
  v = m.add("Gemm", "fc", {v, m.weights("fc.weight", {15, 5}, -0.1, 0.1), m.weights("fc.b", {5})});
  const ImportedNetwork network = expect_same(m, v);
  EXPECT_EQ(count_of(network, "subtract"), 1);
  EXPECT_EQ(count_of(network, "multiply"), 1);
  EXPECT_EQ(count_of(network, "reduce_max"), 3);
  EXPECT_EQ(count_of(network, "reduce_sum"), 3);
}

// PyTorch's softplus with its threshold, also of another beta, and RMS norm by a root's inverse.
TEST(OnnxPictures, FormsThatPyTorchSpellsOut) {
  Model m(2, 8, 8);
  std::string v = m.conv("c1", "x", {6, 2, 3, 3}, {1, 1, 1, 1});
  const auto threshold = [&](const std::string& name, const std::string& value,
                             const std::string& otherwise, const std::string& bent) {
    const std::string above = m.add("Greater", name + ".above", {value, m.number(name + ".t", 20)});
    return m.add("Where", name, {above, otherwise, bent});
  };
  v = threshold("s1", v, v, m.add("Softplus", "bent1", {v}));
  const std::string twice = m.add("Mul", "twice", {v, m.number("beta", 2)});
  const std::string bent = m.add("Softplus", "bent2", {twice});
  v = threshold("s2", twice, v, m.add("Div", "half", {bent, m.number("by", 2)}));
  v = m.conv("c2", v, {6, 6, 3, 3}, {1, 1, 1, 1});
  const std::string square = m.add("Pow", "square", {v, m.number("two", 2)});
  const std::string mean = m.add("ReduceMean", "mean0", {square}, {{"axes", Wholes{1}}});
  const std::string root =
      m.add("Sqrt", "root", {m.add("Add", "e", {mean, m.number("epsilon", 1e-6f)})});
  const std::string inverse = m.add("Div", "inverse", {m.number("one", 1), root});
  v = m.add("Mul", "normed", {v, inverse});
  v = m.add("Mul", "scaled", {v, m.weights("n.weight", {6, 1, 1}, 0.5, 1.5)});
  const ImportedNetwork network = expect_same(m, classify(m, v, 6));
  EXPECT_EQ(count_of(network, "softplus"), 2);
  EXPECT_EQ(count_of(network, "rms_norm"), 1);
}

// All elements of the flattened means, one by one in their order.
TEST(OnnxPictures, ElementsGatheredInTheirOrder) {
  for (const bool in_order : {true, false}) {
    Model m(2, 8, 8);
    std::string v = m.conv("c1", "x", {6, 2, 3, 3}, {1, 1, 1, 1});
    v = m.add("GlobalAveragePool", "mean", {v});
    v = m.add("Reshape", "flat", {v, m.wholes("all", {-1})});
    Wholes places;
    for (int64_t i = 0; i < Model::kBatch * 6; ++i) places.push_back(in_order ? i : i ^ 1);
    m.tensor(tensor_of("places", ElementType::kInt64, {Model::kBatch, 6}, places));
    v = m.add("Gather", "gathered", {v, "places"});
    v = m.add("Gemm", "fc", {v, m.weights("w", {6, 5}), m.weights("b", {5})});
    if (in_order) {
      expect_same(m, v);
    } else {
      EXPECT_FALSE(imported(m.finish(v)).ok());
    }
  }
}

TEST(OnnxPictures, WhatIsRefusedIsNamed) {
  const auto refusal = [](Model& m, const std::string& value) {
    const auto network = imported(m.finish(classify(m, value, 4)));
    return network.ok() ? "accepted" : network.error().message;
  };
  const auto begin = [](Model& m) { return m.conv("c", "x", {4, 1, 3, 3}, {1, 1, 1, 1}); };
  Model power(1, 6, 6);
  std::string v = begin(power);
  v = power.add("Pow", "p", {v, power.number("three", 3)});
  EXPECT_EQ(refusal(power, v),
            "1 node cannot be imported: node 'p' (Pow): has another exponent than 2, the only one "
            "that can be trained");
  Model elu(1, 6, 6);
  v = elu.add("Elu", "e", {begin(elu)}, {{"alpha", 2.5f}});
  EXPECT_EQ(refusal(elu, v),
            "1 node cannot be imported: node 'e' (Elu): has an alpha of 2.500000; 0 to 2 is "
            "possible");
  Model places(1, 6, 6);
  v = places.add("LayerNormalization", "ln",
                 {begin(places), places.weights("ln.weight", {4, 6, 6}, 0.5, 1.5)},
                 {{"axis", int64_t{1}}});
  EXPECT_NE(refusal(places, v).find("node 'ln' (LayerNormalization): has a number for each place"),
            std::string::npos);
  Model over(1, 6, 6);
  v = over.add("ReduceSum", "r", {begin(over), over.wholes("axes", {0})});
  EXPECT_NE(refusal(over, v).find("node 'r' (ReduceSum): goes over the examples of a batch"),
            std::string::npos);
  Model groups(1, 6, 6);
  groups.set_opset(21);
  v = groups.add("GroupNormalization", "g",
                 {begin(groups), groups.weights("gw", {4}), groups.weights("gb", {4})},
                 {{"num_groups", int64_t{3}}});
  EXPECT_NE(refusal(groups, v).find("its 3 groups do not divide 4 channels"), std::string::npos);
}

}  // namespace
}  // namespace mantissa::testing
