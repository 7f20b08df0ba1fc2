// Loops, and sequences, which loops make.
#include <gtest/gtest.h>

#include "onnx/evaluate/test_models.h"

namespace mantissa::onnx {
namespace {

std::vector<TensorData> results_of(const ModelData& model, const Tensors& inputs) {
  ThreadPool pool(1);
  auto outputs = evaluate(model, inputs, pool);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? std::move(*outputs) : std::vector<TensorData>();
}

std::string number(std::string_view name, int64_t value, int type = kInt64) {
  return bytes_field(
      5, tensor_message(name, type, {}, numbers_field(type == kInt64 ? 7 : 5, {value})));
}

TensorData whole(int64_t value) {
  TensorData tensor = *allocate(ElementType::kInt64, {});
  writable<int64_t>(tensor)[0] = value;
  return tensor;
}

// Doubles s, and notes it before; it goes on as long as i < 2.
const std::string kDoubling =
    node("Less", {"i", "two"}, {"more"}) + node("Add", {"s", "s"}, {"next"}) +
    node("Identity", {"s"}, {"noted"}) + number("two", 2) + input("i", {}, kInt64) +
    input("c", {}, kBool) + input("s", {2}) + output("more", kBool) + output("next") +
    bytes_field(12, value_message("noted", kFloat, {2}));

std::string doubling_model() {
  return model_message(
      node("Loop", {"trips", "", "x"}, {"y", "all"}, graph_attribute("body", kDoubling)) +
      input("x", {2}) + input("trips", {}, kInt64) + output("y") + output("all"));
}

TEST(OnnxLoop, RunsAsOftenAsItIsToldOrUntilItsConditionEnds) {
  const std::string bytes = doubling_model();
  const ModelData model = parse(bytes);
  const auto twice = results_of(model, {{"x", tensor({2})}, {"trips", whole(2)}});
  EXPECT_EQ(floats(twice[0]), (std::vector<float>{4, 8}));
  EXPECT_EQ(twice[1].dims, (Dims{2, 2}));
  EXPECT_EQ(floats(twice[1]), (std::vector<float>{1, 2, 2, 4}));
  // i is 2 in the third iteration, which is the last.
  const auto ended = results_of(model, {{"x", tensor({2})}, {"trips", whole(100)}});
  EXPECT_EQ(floats(ended[0]), (std::vector<float>{8, 16}));
  EXPECT_EQ(ended[1].dims, (Dims{3, 2}));
}

TEST(OnnxLoop, WithoutIterationsPassesItsStateOn) {
  const std::string bytes = doubling_model();
  const auto none = results_of(parse(bytes), {{"x", tensor({2})}, {"trips", whole(0)}});
  EXPECT_EQ(floats(none[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(none[1].dims, (Dims{0, 2}));
}

// A state keeps its shape if an iteration keeps it; then shapes after the loop are known before it
// runs.
TEST(OnnxLoop, ShapesOfStatesAreFoundBeforeItRuns) {
  const std::string bytes = doubling_model();
  const ModelData model = parse(bytes);
  const Result<Survey> facts = survey(model, {{"x", {2}}, {"trips", {}}});
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(facts->outputs[0].shaped);
  EXPECT_EQ(facts->outputs[0].tensor.dims, Dims{2});
  EXPECT_FALSE(facts->outputs[1].shaped);
}

TEST(OnnxLoop, NamesProblemsOfItsBodyOnce) {
  const std::string body = node("Concat", {"s", "s"}, {"twice"}, integer_attribute("axis", 0)) +
                           node("Sort", {"twice"}, {"next"}) + node("Identity", {"c"}, {"more"}) +
                           input("i", {}, kInt64) + input("c", {}, kBool) + input("s", {2}) +
                           output("more", kBool) + output("next");
  const std::string bytes =
      model_message(node("Loop", {"trips", "", "x"}, {"y"}, graph_attribute("body", body)) +
                    number("trips", 3) + input("x", {2}) + output("y"));
  EXPECT_EQ(fault(parse(bytes), {{"x", tensor({2})}}),
            "1 node is not supported: \"Sort\": no such operator is known here (\"next\")");
}

TEST(OnnxLoop, ScanGoesBackwardsIfItIsTold) {
  const std::string body = node("Add", {"sum", "part"}, {"next"}) +
                           node("Identity", {"next"}, {"noted"}) + input("sum", {}) +
                           input("part", {}) + output("next") + output("noted");
  const auto list = [](std::string_view name) {
    return bytes_field(5, bytes_field(1, name) + numbers_field(8, {1}) + number_field(20, 7));
  };
  const std::string bytes =
      model_message(node("Scan", {"zero", "x"}, {"y", "all"},
                         graph_attribute("body", body) + integer_attribute("num_scan_inputs", 1) +
                             list("scan_input_directions") + list("scan_output_directions")) +
                    bytes_field(5, tensor_message("zero", kFloat, {}, float_field(4, 0))) +
                    input("x", {3}) + output("y") + output("all"));
  const auto found = results_of(parse(bytes), {{"x", tensor({3})}});
  EXPECT_EQ(floats(found[0]), (std::vector<float>{6}));
  EXPECT_EQ(floats(found[1]), (std::vector<float>{6, 5, 3}));
}

TEST(OnnxSequences, PartsGoThroughAMapAndTogetherAgain) {
  const std::string body =
      node("Neg", {"part"}, {"opposite"}) + input("part", {1, 2}) + output("opposite");
  const std::string bytes = model_message(
      node("SplitToSequence", {"x"}, {"parts"}) +
      node("SequenceMap", {"parts"}, {"mapped"}, graph_attribute("body", body)) +
      node("SequenceInsert", {"mapped", "x", "first"}, {"more"}) + number("first", 0) +
      node("ConcatFromSequence", {"more"}, {"y"}, integer_attribute("axis", 0)) +
      node("SequenceLength", {"more"}, {"n"}) + input("x", {2, 2}) + output("y") +
      output("n", kInt64));
  const auto found = results_of(parse(bytes), {{"x", tensor({2, 2})}});
  EXPECT_EQ(floats(found[0]), (std::vector<float>{1, 2, 3, 4, -1, -2, -3, -4}));
  EXPECT_EQ(numbers<int64_t>(found[1])[0], 3);
}

TEST(OnnxSequences, WhereATensorIsWantedTheyAreRefused) {
  const std::string bytes =
      model_message(node("SequenceConstruct", {"x"}, {"s"}) + node("Relu", {"s"}, {"y"}) +
                    input("x", {2}) + output("y"));
  EXPECT_NE(fault(parse(bytes), {{"x", tensor({2})}})
                .find("\"Relu\": a sequence or an optional value where a tensor is wanted"),
            std::string::npos);
}

// Folding makes no initialiser of a sequence, and the elements stay.
TEST(OnnxSequences, OfConstantsAreFolded) {
  const std::string bytes = model_message(
      node("SequenceConstruct", {"a", "b"}, {"s"}) + node("SequenceAt", {"s", "x"}, {"y"}) +
      node("SequenceAt", {"s", "a"}, {"z"}) + number("a", 1) + number("b", 5) +
      input("x", {}, kInt64) + output("y", kInt64) + output("z", kInt64));
  const ModelData model = parse(bytes);
  const Result<ModelData> folded = fold_constants(model, {{"x", {}}});
  ASSERT_TRUE(folded.ok());
  const auto found = results_of(*folded, {{"x", whole(-2)}});
  EXPECT_EQ(numbers<int64_t>(found[0])[0], 1);
  EXPECT_EQ(numbers<int64_t>(found[1])[0], 5);
}

}  // namespace
}  // namespace mantissa::onnx
