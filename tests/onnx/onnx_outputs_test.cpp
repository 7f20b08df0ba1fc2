// Models with several outputs: networks with a loss for each, whose targets have the output's name.
#include "networks/network.h"
#include "ops/loss.h"
#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kHeadColumns = 6, kHidden = 8;
using ops::LossKind;

std::string head_layer(Model& m, const std::string& name, const std::string& from, int64_t in,
                       int64_t out) {
  return m.add("Gemm", name,
               {from, m.weights(name + ".weight", {in, out}), m.weights(name + ".bias", {out})});
}

// A trunk with classes, one number and labels behind it.
class Heads {
 public:
  Heads() : model_(kReal, {kBatch, kHeadColumns}) {
    const std::string trunk =
        model_.add("Relu", "relu", {head_layer(model_, "hidden", "x", kHeadColumns, kHidden)});
    model_.add("Softmax", "kind", {head_layer(model_, "kinds", trunk, kHidden, 4)});
    head_layer(model_, "age", trunk, kHidden, 1);
    model_.add("Sigmoid", "my tags:0", {head_layer(model_, "marks", trunk, kHidden, 3)});
    head_layer(model_, "sizes", trunk, kHidden, 2);
    model_.add("Softmax", "again", {"kinds"});
    head_layer(model_, "labels", "again", 4, 2);
  }
  const ModelData& with(const std::vector<std::string>& outputs) { return model_.finish(outputs); }

 private:
  Model model_;
};

Result<ImportedNetwork> imported_heads(const std::vector<std::string>& outputs,
                                       onnx::ImportOptions options = {}) {
  Heads heads;
  options.output = "all";
  options.has_loss = options.has_loss || !options.losses.empty();
  return onnx::import_network(heads.with(outputs), options);
}

onnx::ImportOptions with_loss(ops::LossOptions loss, bool is_chosen) {
  onnx::ImportOptions options;
  options.loss = std::move(loss);
  options.has_loss = is_chosen;
  return options;
}
onnx::ImportOptions with_losses(std::vector<LossKind> kinds) {
  onnx::ImportOptions options;
  options.losses = std::move(kinds);
  return options;
}

// "kind cross-entropy [], ..." by output.
std::string losses_of(const Result<ImportedNetwork>& network) {
  if (!network.ok()) return network.error().message;
  const Graph& graph = network->graph;
  EXPECT_EQ(graph.losses.size(), graph.outputs.size());
  const auto options = example_options(graph);
  EXPECT_TRUE(options.ok()) << (options.ok() ? "" : options.error().message);
  std::string text;
  for (size_t i = 0; i < graph.losses.size(); ++i) {
    const Node& loss = graph.nodes[graph.losses[i]];
    EXPECT_EQ(loss.inputs[0], graph.outputs[i]);
    const Value& targets = graph.values[loss.inputs[1]];
    text += (i == 0 ? "" : ", ") + targets.name + " " + ops::loss_of_node(loss)->name + " " +
            to_string(targets.shape);
  }
  return text;
}

std::string refusal_of(const std::vector<std::string>& outputs, onnx::ImportOptions options) {
  const auto network = imported_heads(outputs, std::move(options));
  return network.ok() ? "imported" : network.error().message;
}

TEST(OnnxOutputs, EachHasALossAndTargetsOfItsName) {
  const auto network = imported_heads({"kind", "age", "my tags:0"});
  EXPECT_EQ(losses_of(network),
            "kind cross-entropy [], age regression [1], my_tags_0 sigmoid [3]");
  ASSERT_TRUE(network.ok());
  expect_json(*network);
  EXPECT_EQ(count_of(*network, "linear"), 4);
  EXPECT_EQ(count_of(*network, "softmax") + count_of(*network, "sigmoid"), 0);
  EXPECT_NE(std::find(network->notes.begin(), network->notes.end(),
                      "the output 'my tags:0' has the loss sigmoid of 3 logits; the data call its "
                      "labels 'my_tags_0'"),
            network->notes.end());
}

// The network's first output has the numbers that the model has before its softmax or sigmoid.
TEST(OnnxOutputs, EachHasTheModelsNumbers) {
  std::vector<int16_t> rows;
  std::vector<float> x;
  for (int64_t i = 0; i < kBatch * kHeadColumns; ++i) {
    rows.push_back(static_cast<int16_t>(uniform("rows", i) * 16384 - 8192));
    x.push_back(static_cast<float>(rows.back()) * 0x1p-12F);
  }
  const std::vector<std::pair<std::string, std::string>> ends = {
      {"kind", "kinds"}, {"age", "age"}, {"my tags:0", "marks"}};
  for (size_t first = 0; first < ends.size(); ++first) {
    const auto& [output, logits] = ends[first];
    const auto network = imported_heads({output, ends[(first + 1) % ends.size()].first});
    ASSERT_TRUE(network.ok()) << network.error().message;
    Heads heads;
    ThreadPool pool(1);
    const auto expected = onnx::evaluate(
        heads.with({logits}), {{"x", tensor_of("x", kReal, {kBatch, kHeadColumns}, x)}}, pool);
    auto run = ImportedRun::create(*network, kBatch, false);
    ASSERT_TRUE(run.ok() && expected.ok());
    const auto found = (*run)->logits(rows);
    ASSERT_TRUE(found.ok());
    expect_near((*expected)[0], *found, network->graph);
  }
}

TEST(OnnxOutputs, LossesAreNamedForAllOrEach) {
  const std::vector<LossKind> three = {LossKind::kCrossEntropy, LossKind::kHuber,
                                       LossKind::kSigmoids};
  EXPECT_EQ(losses_of(imported_heads({"kind", "age", "my tags:0"}, with_losses(three))),
            "kind cross-entropy [], age huber [1], my_tags_0 sigmoid [3]");
  // The squared error is a loss of numbers.
  const auto squares = [](LossKind kind) {
    return losses_of(imported_heads({"age", "sizes"}, with_loss({.kind = kind}, true)));
  };
  EXPECT_EQ(squares(LossKind::kSquaredError), "age regression [1], sizes regression [2]");
  EXPECT_EQ(squares(LossKind::kAbsolute), "age l1 [1], sizes l1 [2]");
  EXPECT_EQ(losses_of(imported_heads({"age", "sizes"})),
            "age regression [1], sizes cross-entropy []");
}

// A softmax that another node reads is computed, and left out of the output before its loss.
TEST(OnnxOutputs, ProbabilitiesThatOthersReadAreKept) {
  const auto network = imported_heads({"again", "labels"});
  EXPECT_EQ(losses_of(network), "again cross-entropy [], labels_2 cross-entropy []");
  EXPECT_EQ(count_of(*network, "softmax"), 1);
}

TEST(OnnxOutputs, WhatIsRefused) {
  const auto refused = [](const std::vector<std::string>& outputs, onnx::ImportOptions options,
                          const std::string& reason) {
    const std::string message = refusal_of(outputs, std::move(options));
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  };
  refused({"kind", "again"}, {}, "'kind' and 'again' have the same numbers before their losses");
  refused({"kind", "age"}, with_losses({LossKind::kHuber, LossKind::kHuber}),
          "the output 'kind' ends with the probabilities of classes");
  refused({"age", "my tags:0"}, with_losses({LossKind::kHuber, LossKind::kOrdinal}),
          "loss ordinal: the output 'my tags:0' ends with the probabilities of --loss sigmoid");
  refused({"age", "sizes"}, with_losses(std::vector<LossKind>(3, LossKind::kHuber)),
          "loss: names 3 losses, and the network has the outputs age, sizes");
  refused({"age", "sizes"}, with_loss({.delta = 2}, false),
          "huber-delta: goes with --loss huber");
  refused({"age", "sizes"}, with_loss({.focal = 2}, false), "focal: goes with --loss sigmoid");
  refused({"my tags:0", "age"}, with_loss({.smoothing = 0.1}, false), "imported");
}

TEST(OnnxOutputs, PlacesMustBeTheOnlyOutput) {
  Model m(1, 8, 8);
  const std::string v = m.conv("c", "x", {4, 1, 3, 3}, {1, 1, 1, 1});
  m.conv("places", v, {3, 4, 1, 1}, {0, 0, 0, 0});
  m.add("Gemm", "whole", {m.add("Flatten", "flat", {v}), m.weights("w", {256, 2})});
  onnx::ImportOptions options;
  options.output = "all";
  const auto network =
      onnx::import_network(m.finish(std::vector<std::string>{"whole", "places"}), options);
  ASSERT_FALSE(network.ok());
  EXPECT_NE(network.error().message.find("'places' has a class for each place"), std::string::npos)
      << network.error().message;
}

}  // namespace
}  // namespace mantissa::testing
