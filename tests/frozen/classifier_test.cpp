// Imported networks get another number of classes: which layer is replaced, and what follows it.
#include "networks/classifier.h"

#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

std::string message(const Result<Graph>& graph) {
  return graph.ok() ? "no error" : graph.error().message;
}

const Node& node_named(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const Node& node) { return node.name == name; });
  EXPECT_NE(found, graph.nodes.end()) << name;
  return *found;
}

Shape weights_of(const Graph& graph, const std::string& layer) {
  return graph.parameters[node_named(graph, layer).parameters[0]].shape;
}

TEST(Classifier, TheLayerThatMakesTheOutputIsReplaced) {
  Model m(1, 6, 6);
  std::string v = m.conv("c1", "x", {5, 1, 3, 3}, {0, 0, 0, 0});
  const auto network = imported(m.finish(classify(m, v, 5)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  for (const int64_t classes : {2, 9}) {
    const auto changed = with_classes(network->graph, classes);
    ASSERT_TRUE(changed.ok()) << message(changed);
    EXPECT_EQ(changed->classes(), classes);
    EXPECT_EQ(weights_of(*changed, "fc"), (Shape{classes, 5}));
    EXPECT_EQ(weights_of(*changed, "c1"), (Shape{5, 3, 3, 1}));
  }
}

// SqueezeNet's last convolution is averaged: a new layer is put after the average, and either layer
// can be replaced.
ImportedNetwork averaged() {
  Model m(1, 6, 6);
  std::string v = m.conv("c1", "x", {5, 1, 3, 3}, {0, 0, 0, 0});
  v = m.norm("norm", v, 5);
  v = m.add("Relu", "r", {v});
  v = m.add("GlobalAveragePool", "mean", {v});
  auto network = imported(m.finish(m.add("Flatten", "flat", {v})));
  EXPECT_TRUE(network.ok()) << network.error().message;
  return std::move(*network);
}

TEST(Classifier, TwoCandidatesAreListedAndOneIsChosen) {
  const ImportedNetwork network = averaged();
  EXPECT_EQ(
      message(with_classes(network.graph, 3)),
      "network 'net' cannot get 3 classes: either of the layers 'classifier', 'c1' could make "
      "its output; --classifier names one");
  const auto last = with_classes(network.graph, 3, "classifier");
  ASSERT_TRUE(last.ok()) << message(last);
  EXPECT_EQ(weights_of(*last, "classifier"), (Shape{3, 5}));
  EXPECT_EQ(weights_of(*last, "c1"), (Shape{5, 3, 3, 1}));
  const auto first = with_classes(network.graph, 3, "c1");
  ASSERT_TRUE(first.ok()) << message(first);
  EXPECT_EQ(weights_of(*first, "c1"), (Shape{3, 3, 3, 1}));
  EXPECT_EQ(weights_of(*first, "norm"), Shape{3});
  EXPECT_EQ(weights_of(*first, "classifier"), (Shape{3, 3}));
}

TEST(Classifier, NamesThatDoNotDoAreRefused) {
  const ImportedNetwork network = averaged();
  EXPECT_EQ(message(with_classes(network.graph, 3, "r")),
            "classifier: 'r' is no layer of 'net' whose channels can be changed; it has 'c1', "
            "'classifier'");
  Model m(1, 6, 6);
  std::string v = m.conv("c1", "x", {5, 1, 3, 3}, {0, 0, 0, 0});
  const auto deep = imported(m.finish(classify(m, v, 5)));
  ASSERT_TRUE(deep.ok());
  EXPECT_EQ(message(with_classes(deep->graph, 3, "c1")),
            "network 'net' with 3 classes by 'c1': the output has 5");
  EXPECT_EQ(message(with_classes(deep->graph, 3, "c1,")).substr(0, 30),
            "classifier: '' is no layer of ");
}

// Two layers side by side: the channels of the named layer become the classes.
TEST(Classifier, OneOfSeveralLayersSideBySideIsChosen) {
  Model m(1, 4, 4);
  const std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  const std::string flat = m.add("Flatten", "flat", {v});
  std::vector<std::string> parts;
  for (const std::string part : {"a", "b"}) {
    parts.push_back(m.add("Gemm", part, {flat, m.weights(part + ".weight", {16, 3})}));
  }
  const auto network = imported(m.finish(m.add("Concat", "both", parts, {{"axis", int64_t{1}}})));
  ASSERT_TRUE(network.ok()) << network.error().message;
  const auto changed = with_classes(network->graph, 8, "b");
  ASSERT_TRUE(changed.ok()) << message(changed);
  EXPECT_EQ(changed->classes(), 8);
  EXPECT_EQ(weights_of(*changed, "b"), (Shape{5, 16}));
  EXPECT_EQ(weights_of(*changed, "classifier"), (Shape{8, 8}));
  EXPECT_NE(message(with_classes(network->graph, 2, "b")).find("no channel left"),
            std::string::npos);
}

TEST(Classifier, OfSeveralOutputsOneIsNamed) {
  Model m(1, 4, 4);
  const std::string v = m.conv("c", "x", {4, 1, 3, 3}, {0, 0, 0, 0});
  const std::string flat = m.add("Flatten", "flat", {v});
  m.add("Gemm", "main", {flat, m.weights("main.weight", {16, 3})});
  m.add("Gemm", "aux", {flat, m.weights("aux.weight", {16, 3})});
  const ModelData& model = m.finish(std::vector<std::string>{"main", "aux"});
  auto network = imported(model);
  ASSERT_TRUE(network.ok()) << network.error().message;
  const Status refused = set_classes(7, "", "", *network);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().message,
      "the model has the outputs \"main\", \"aux\"; --output says which of them gets 7 classes");
  auto chosen = onnx::import_network(model, {.mean = {}, .deviation = {}, .output = "aux"});
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  const Status changed = set_classes(7, "", "aux", *chosen);
  ASSERT_TRUE(changed.ok()) << changed.error().message;
  EXPECT_EQ(weights_of(chosen->graph, "aux"), (Shape{7, 16}));
  // Parameters that a run draws by its seed are not listed.
  EXPECT_EQ(chosen->parameters.size(), chosen->graph.parameters.size() - 1);
  EXPECT_EQ(chosen->parameters.back().name, "c.bias");
}

}  // namespace
}  // namespace mantissa::testing
