// The outputs of a model that settings choose.
#include "onnx/import/outputs.h"

#include <gtest/gtest.h>

namespace mantissa::onnx {
namespace {

GraphData graph_with(const std::vector<std::string>& outputs) {
  GraphData graph;
  for (const std::string& name : outputs) {
    graph.outputs.push_back({name, ElementType::kFloat, false, {}});
  }
  return graph;
}

// The names that are chosen, or the error; and the notes.
std::string chosen(const std::vector<std::string>& outputs, const std::string& text) {
  ImportOptions options;
  options.output = text;
  std::vector<std::string> notes;
  const auto results = chosen_outputs(graph_with(outputs), options, notes);
  if (!results.ok()) return results.error().message;
  std::string names;
  for (const ModelResult& result : *results) {
    EXPECT_EQ(result.value, result.output);
    names += (names.empty() ? "" : " ") + result.output;
  }
  for (const std::string& note : notes) names += "; " + note;
  return names;
}

TEST(ChosenOutputs, OneOrSeveralOrAll) {
  EXPECT_EQ(chosen({"a", "b"}, "all"), "a b");
  EXPECT_EQ(chosen({"a", "b"}, "b,a"), "b a");
  EXPECT_EQ(chosen({"a", "b", "c"}, "c,a"), "c a; of the outputs a, b, c the network has 'c', 'a'");
  EXPECT_EQ(chosen({"a", "b"}, "b"), "b; of the outputs a, b the network has 'b'");
  EXPECT_EQ(chosen({"a", "b"}, ""),
            "a; of the outputs a, b the network has 'a'; --output takes several names with commas "
            "between them, or all");
  EXPECT_EQ(chosen({"a"}, ""), "a");
  EXPECT_EQ(chosen({"a"}, "all"), "a");
}

TEST(ChosenOutputs, ANameOfTheModelIsTakenAsItIs) {
  EXPECT_EQ(chosen({"a,b", "all"}, "a,b"), "a,b; of the outputs a,b, all the network has 'a,b'");
  EXPECT_EQ(chosen({"a,b", "all"}, "all"), "all; of the outputs a,b, all the network has 'all'");
}

TEST(ChosenOutputs, WhatIsRefused) {
  EXPECT_EQ(chosen({"a", "b"}, "a,c"), "the model has no output 'c'; it has a, b");
  EXPECT_EQ(chosen({"a", "b"}, "a,"), "the model has no output ''; it has a, b");
  EXPECT_EQ(chosen({"a", "b"}, "a,b,a"), "output: 'a' is named twice");
  EXPECT_EQ(chosen({}, ""), "the model has no output");
}

}  // namespace
}  // namespace mantissa::onnx
