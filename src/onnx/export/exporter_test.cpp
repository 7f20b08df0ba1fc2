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
