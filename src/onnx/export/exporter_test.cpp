// The one table of the export: the value that a node reads decides which function exports it.
#include "onnx/export/exporter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// A frozen network without parameters, all of whose values have the exponent 0.
ExportedNetwork frozen(const Graph& graph) {
  const size_t values = graph.values.size(), nodes = graph.nodes.size();
  return {.graph = &graph,
          .parameters = {},
          .exponents = std::vector<int>(values, 0),
          .limits = std::vector<int>(values, 127),
          .is_wide = std::vector<bool>(values, false),
          .by_channel = std::vector<bool>(values, false),
          .skipped = std::vector<bool>(nodes, false),
          .applies_relu = std::vector<bool>(nodes, false)};
}

std::string operator_of(const ExportedModel& exported, const std::string& output) {
  for (const NodeData& node : exported.model.graph.nodes) {
    if (node.outputs[0] == output) return node.op_type;
  }
  return "";
}

ExportedModel exported(const Graph& graph) {
  auto result = export_network(frozen(graph), ExportTarget::kOnnxRuntime);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(*result) : ExportedModel{};
}

TEST(Exporter, BytesAndRowsOfOneModelHaveFunctionsOfTheirOwn) {
  GraphBuilder b("both", Shape{2, 2, 1});
  const int image = b.add(ops::kNormaliseInput, "image", {b.input()}, {{"means", WholeList{1}}});
  b.add(ops::kTanh, "of_image", {image});
  const int rows = b.add(ops::kQuantiseInput, "rows", {b.add_numbers("numbers", Shape{3, 4}, -12)});
  const auto graph = b.finish(b.add(ops::kTanh, "of_rows", {rows}));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const ExportedModel model = exported(*graph);
  EXPECT_EQ(operator_of(model, "of_image"), "Gather");  // a table
  EXPECT_EQ(operator_of(model, "of_rows"), "Tanh");
  ASSERT_EQ(model.model.graph.inputs.size(), 2U);
  EXPECT_EQ(model.model.graph.inputs[0].name, "pixels");
  EXPECT_EQ(model.model.graph.inputs[1].name, "numbers");
}

TEST(Exporter, InputsAndTheOutputKeepTheirNames) {
  GraphBuilder pictures("net", Shape{2, 2, 1});
  const int image =
      pictures.add(ops::kNormaliseInput, "logits", {pictures.input()}, {{"means", WholeList{1}}});
  const auto graph = pictures.finish(pictures.add(ops::kFlatten, "numbers", {image}));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const ExportedModel model = exported(*graph);
  EXPECT_EQ(operator_of(model, "logits"), "DequantizeLinear");
  EXPECT_EQ(operator_of(model, "logits/value"), "Clip");
  EXPECT_EQ(operator_of(model, "numbers"), "Flatten");

  GraphBuilder rows("net");
  const int numbers = rows.add_numbers("numbers", Shape{3, 4}, -12);
  const int value = rows.add(ops::kQuantiseInput, "quantise", {numbers});
  const auto other = rows.finish(rows.add(ops::kTanh, "last_hidden_state", {value}));
  ASSERT_TRUE(other.ok()) << other.error().message;
  const ExportedModel encoder = exported(*other);
  EXPECT_EQ(operator_of(encoder, "last_hidden_state/value"), "Tanh");
  EXPECT_EQ(operator_of(encoder, "last_hidden_state"), "Identity");
}

// A network of one picture whose two results are compared with inputs of these names.
Result<Graph> with_two_results(const std::string& first, const std::string& second) {
  GraphBuilder b("two", Shape{2, 2, 1});
  const int image = b.add(ops::kNormaliseInput, "image", {b.input()}, {{"means", WholeList{1}}});
  const int a = b.add(ops::kFlatten, "a", {image});
  const int c = b.add(ops::kTanh, "c", {a});
  const int labels = b.add_input(first, {}, Element::kIndex);
  b.add_loss(ops::kSoftmaxCrossEntropy, "a_loss", {a, labels});
  if (second.empty()) return b.finish({a, c});
  b.add_loss(ops::kSoftmaxCrossEntropy, "c_loss",
             {c, b.add_input(second, {}, Element::kIndex)});
  return b.finish({a, c});
}

TEST(Exporter, SeveralOutputsHaveTheNamesOfTheirLabels) {
  const auto graph = with_two_results("kind", "image");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const ExportedModel model = exported(*graph);
  const auto& outputs = model.model.graph.outputs;
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].name, "kind");
  EXPECT_EQ(outputs[1].name, "image");
  EXPECT_EQ(outputs[1].dims[1].size, 4);
  EXPECT_EQ(operator_of(model, "kind"), "DequantizeLinear");
  EXPECT_EQ(operator_of(model, "image"), "DequantizeLinear");
  EXPECT_EQ(operator_of(model, "image/value"), "Clip");  // the node of that name gives way
}

TEST(Exporter, NamesOfOutputsThatAreTakenOrMissing) {
  const auto refusal = [](const Result<Graph>& graph) {
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
    const auto result = export_network(frozen(*graph), ExportTarget::kOnnxRuntime);
    return result.ok() ? "exported" : result.error().message;
  };
  EXPECT_EQ(refusal(with_two_results("kind", "pixels/")), "exported");
  EXPECT_EQ(refusal(with_two_results("kind", "")),
            "cannot be exported: its result 'c' has no loss, whose labels name it");
}

TEST(Exporter, EachInputOfAModelHasOneInputOfTheNetwork) {
  GraphBuilder b("twice", Shape{2, 2, 1});
  const int first = b.add(ops::kNormaliseInput, "first", {b.input()}, {{"means", WholeList{1}}});
  const int more = b.add_input("more", Shape{2, 2, 1}, Element::kMantissa);
  const int second = b.add(ops::kNormaliseInput, "second", {more}, {{"means", WholeList{1}}});
  const auto graph = b.finish(b.add(ops::kAdd, "sum", {first, second}));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const ExportedModel model = exported(*graph);
  ASSERT_EQ(model.model.graph.inputs.size(), 2U);
  EXPECT_EQ(model.model.graph.inputs[0].name, "pixels");
  EXPECT_EQ(model.model.graph.inputs[1].name, "more");
}

}  // namespace
}  // namespace mantissa::onnx
