#include "onnx/evaluate/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/test_models.h"

namespace mantissa::onnx {
namespace {

std::vector<std::string> operators(const ModelData& model) {
  std::vector<std::string> names;
  for (const NodeData& each : model.graph.nodes) names.push_back(each.op_type);
  return names;
}

TEST(OnnxEvaluate, RefusesInputsThatDoNotFit) {
  const std::string bytes = model_message(node("Add", {"x", "y"}, {"z"}) + input("x", {2, 3}) +
                                          input("y", {2, 3}) + output("z"));
  const ModelData model = parse(bytes);
  EXPECT_EQ(fault(model, {{"x", tensor({2, 3})}, {"y", tensor({2, 3})}}), "");
  EXPECT_EQ(fault(model, {}), "missing inputs: \"x\", \"y\"");
  EXPECT_NE(fault(model, {{"x", tensor({2, 3})}, {"y", tensor({3, 2})}})
                .find("input \"y\" has the shape [3, 2], but [2, 3] is wanted"),
            std::string::npos);
  EXPECT_NE(fault(model, {{"x", tensor({2, 3})}, {"y", tensor({2, 3})}, {"w", tensor({1})}})
                .find("the network has no input \"w\"; its inputs: \"x\", \"y\""),
            std::string::npos);
  EXPECT_NE(fault(model, {{"x", tensor({2, 3})}, {"y", *allocate(ElementType::kInt64, {2, 3})}})
                .find("has the type int64, but float is wanted"),
            std::string::npos);
}

TEST(OnnxEvaluate, NamesAllThatIsNotSupported) {
  const std::string bytes = model_message(
      node("Sort", {"x"}, {"a"}) + node("Relu", {"a"}, {"b"}) + node("Sort", {"b"}, {"c"}) +
      node("Elu", {"x"}, {"d"}, integer_attribute("speed", 1)) + node("MatMul", {"x", "x"}, {"e"}) +
      input("x", {2, 3}) + output("c") + output("e"));
  const std::string words = fault(parse(bytes), {{"x", tensor({2, 3})}});
  EXPECT_EQ(
      words,
      "4 nodes are not supported: \"Sort\": no such operator is known here (\"a\", \"c\"); "
      "\"Elu\": attribute \"speed\" is not supported (\"d\"); \"MatMul\": dims [2, 3] and [2, 3] "
      "do not go together (\"e\")");
}

TEST(OnnxEvaluate, RefusesOperatorSetsThatAreNew) {
  const std::string bytes =
      model_message(node("Relu", {"x"}, {"y"}) + input("x", {1}) + output("y"), 29);
  EXPECT_NE(
      fault(parse(bytes), {{"x", tensor({1})}}).find("operator set 29 of ONNX is not supported"),
      std::string::npos);
}

// A truth value of a file is a byte: all but 0 are true, whoever gives it.
TEST(OnnxEvaluate, AnyByteIsATruthValue) {
  const std::string then = node("Neg", {"x"}, {"t"}) + output("t");
  const std::string otherwise = node("Abs", {"x"}, {"e"}) + output("e");
  const std::string branches =
      graph_attribute("then_branch", then) + graph_attribute("else_branch", otherwise);
  ThreadPool pool(1);
  for (const int byte : {0, 1, 2, 127, 128, 255}) {
    const std::string flag = bytes_field(
        5, tensor_message("c", kBool, {}, bytes_field(9, std::string(1, static_cast<char>(byte)))));
    const std::string bytes =
        model_message(node("If", {"c"}, {"y"}, branches) + input("x", {2}) + flag + output("y"));
    const auto outputs = evaluate(parse(bytes), {{"x", tensor({2})}}, pool);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    EXPECT_EQ(floats((*outputs)[0])[0], byte == 0 ? 1 : -1) << byte;
    const auto folded = fold_constants(parse(bytes), {{"x", {2}}});
    ASSERT_TRUE(folded.ok());
    EXPECT_EQ(operators(*folded), std::vector<std::string>{byte == 0 ? "Abs" : "Neg"});
    // The same as an input of the model.
    const std::string open = model_message(node("If", {"c"}, {"y"}, branches) + input("x", {2}) +
                                           input("c", {}, kBool) + output("y"));
    TensorData given = *allocate(ElementType::kBool, {});
    writable<std::byte>(given)[0] = static_cast<std::byte>(byte);
    const auto other = evaluate(parse(open), {{"x", tensor({2})}, {"c", given}}, pool);
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_EQ(floats((*other)[0])[0], byte == 0 ? 1 : -1) << byte;
  }
}

// Numbers of a file that leave int64 when something is added to them, or multiplied.
TEST(OnnxEvaluate, RefusesNumbersAtTheEndOfInt64) {
  for (const int64_t number : {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1}) {
    for (const char* op : {"Flatten", "Concat", "Softmax", "Split", "ArgMax", "LogSoftmax",
                           "LpNormalization", "Hardmax"}) {
      const std::string bytes =
          model_message(node(op, {"x"}, {"y"}, integer_attribute("axis", number)) +
                        input("x", {2, 3}) + output("y"));
      const std::string message = fault(parse(bytes), {{"x", tensor({2, 3})}});
      EXPECT_NE(message.find("axis"), std::string::npos) << op << ": " << message;
    }
    const auto with_list = [&](const char* op, const std::string& rank, const std::string& more) {
      const std::string list = bytes_field(
          5, bytes_field(1, rank) + numbers_field(8, {number, 2}) + number_field(20, 7));
      return model_message(node(op, {"x", "w"}, {"y"}, list + more) + input("x", {1, 1, 4, 4}) +
                           bytes_field(5, tensor_message("w", kFloat, {1, 1, 2, 2},
                                                         bytes_field(9, std::string(16, '\0')))) +
                           output("y"));
    };
    for (const char* list : {"output_shape", "output_padding", "strides", "dilations", "pads"}) {
      EXPECT_NE(fault(parse(with_list("ConvTranspose", list, "")), {{"x", tensor({1, 1, 4, 4})}}),
                "")
          << list;
    }
    const std::string sizes =
        model_message(node("Resize", {"x", "", "", "s"}, {"y"}) + input("x", {2, 3}) +
                      whole_numbers_tensor("s", {number, 3}) + output("y"));
    EXPECT_NE(fault(parse(sizes), {{"x", tensor({2, 3})}}), "");
    const std::string eye =
        model_message(node("EyeLike", {"x"}, {"y"}, integer_attribute("dtype", number)) +
                      input("x", {2, 3}) + output("y"));
    EXPECT_NE(fault(parse(eye), {{"x", tensor({2, 3})}}), "");
  }
}

// Set 28 is the newest that PyPI's onnx writes.
TEST(OnnxEvaluate, RunsOperatorSetsThatChangeNothingForAnOperator) {
  ThreadPool pool(1);
  for (int64_t opset = 7; opset <= 28; ++opset) {
    const std::string bytes =
        model_message(node("Add", {"x", "x"}, {"y"}) + input("x", {2}) + output("y"), opset);
    const auto outputs = evaluate(parse(bytes), {{"x", tensor({2})}}, pool);
    ASSERT_TRUE(outputs.ok()) << opset;
    EXPECT_EQ(floats((*outputs)[0]), (std::vector<float>{2, 4}));
  }
}

// In set 13 the axes are an attribute, in set 18 an input.
TEST(OnnxEvaluate, RunsAFunctionByItsOwnOperatorSet) {
  const std::string axes =
      bytes_field(5, bytes_field(1, "axes") + number_field(8, 1) + number_field(20, 7));
  ThreadPool pool(1);
  const std::string bytes =
      model_message(call_node("mean", {"x"}, {"y"}) + input("x", {2, 3}) + output("y"), 18) +
      function_message("mean", {"a"}, {"b"},
                       bytes_field(7, node_message("ReduceMean", {"a"}, {"b"}, axes)) +
                           bytes_field(9, number_field(2, 13)));
  const auto outputs = evaluate(parse(bytes), {{"x", tensor({2, 3})}}, pool);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  EXPECT_EQ(floats((*outputs)[0]), (std::vector<float>{2, 5}));
}

// A branch reads values of its function, whose names the graph has too, and calls another one.
TEST(OnnxEvaluate, RunsBranchesWithinFunctions) {
  const std::string branches =
      graph_attribute("then_branch", node("Neg", {"a"}, {"t"}) + output("t")) +
      graph_attribute("else_branch", call_node("twice", {"a"}, {"t"}) + output("t"));
  const std::string bytes =
      model_message(call_node("pick", {"condition", "x"}, {"t"}) + node("Abs", {"x"}, {"a"}) +
                        node("Add", {"t", "a"}, {"y"}) + input("condition", {}, kBool) +
                        input("x", {2}) + output("y"),
                    18) +
      function_message("pick", {"c", "a"}, {"b"},
                       bytes_field(7, node_message("If", {"c"}, {"b"}, branches))) +
      function_message("twice", {"a"}, {"b"},
                       bytes_field(7, node_message("Add", {"a", "a"}, {"b"})));
  ThreadPool pool(1);
  for (const bool is_then : {false, true}) {
    TensorData condition = *allocate(ElementType::kBool, {});
    writable<std::byte>(condition)[0] = is_then ? std::byte{1} : std::byte{0};
    const auto outputs =
        evaluate(parse(bytes), {{"condition", condition}, {"x", tensor({2}, -1)}}, pool);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    // x is -1, 0.
    EXPECT_EQ(floats((*outputs)[0]),
              is_then ? (std::vector<float>{2, 0}) : (std::vector<float>{-1, 0}));
  }
}

TEST(OnnxEvaluate, TakesAnOpenBatchAsOne) {
  const std::string x = bytes_field(
      11, bytes_field(1, "x") +
              bytes_field(
                  2, bytes_field(1, number_field(1, kFloat) +
                                        bytes_field(2, bytes_field(1, bytes_field(2, "N")) +
                                                           bytes_field(1, number_field(1, 3))))));
  const std::string bytes = model_message(node("Relu", {"x"}, {"y"}) + x + output("y"));
  const ModelData model = parse(bytes);
  EXPECT_EQ(input_shapes(model).at("x"), (Dims{1, 3}));
  EXPECT_EQ(input_shapes(model, {{"x", {5, 3}}}).at("x"), (Dims{5, 3}));
}

// The numbers that a node makes of these.
std::vector<float> results(std::string_view type, const std::vector<float>& x, int64_t opset,
                           const std::string& attributes = "") {
  const auto count = static_cast<int64_t>(x.size());
  const std::string bytes = model_message(
      node(type, {"x"}, {"y"}, attributes) + input("x", {count}) + output("y"), opset);
  const ModelData model = parse(bytes);
  TensorData values = *allocate(ElementType::kFloat, {count});
  std::copy(x.begin(), x.end(), writable<float>(values).begin());
  ThreadPool pool(1);
  const auto outputs = evaluate(model, {{"x", values}}, pool);
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
  return outputs.ok() ? floats((*outputs)[0]) : std::vector<float>();
}

TEST(OnnxEvaluate, LogarithmsOfSumsOfExponentialsDoNotOverflow) {
  const auto of = [](const std::vector<float>& x) { return results("ReduceLogSumExp", x, 13)[0]; };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_FLOAT_EQ(of({720, 1}), 720);
  EXPECT_FLOAT_EQ(of({-800, -801}), -799.68674f);
  EXPECT_FLOAT_EQ(of({1, 2, 3}), 3.407606f);
  EXPECT_FLOAT_EQ(of({2, 2}), 2.6931472f);
  EXPECT_EQ(of({kInfinity, kInfinity, 1}), kInfinity);
  EXPECT_EQ(of({-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_FLOAT_EQ(of({-kInfinity, 1}), 1);
  EXPECT_TRUE(std::isnan(of({1, NAN, 2})));
}

std::string text_attribute(std::string_view name, std::string_view value) {
  return bytes_field(5, bytes_field(1, name) + bytes_field(4, value) + number_field(20, 3));
}

// The sixth of eleven numbers lies at the fourth of seven, whatever the scale is rounded to.
TEST(OnnxEvaluate, ResizesFromTheCentre) {
  std::string scale(4, '\0');
  const float number = 1.7f;
  std::memcpy(scale.data(), &number, sizeof number);
  const std::string attributes =
      text_attribute("mode", "nearest") + text_attribute("nearest_mode", "ceil") +
      text_attribute("coordinate_transformation_mode", "half_pixel_symmetric");
  const std::string bytes = model_message(
      node("Resize", {"x", "", "scale"}, {"y"}, attributes) + input("x", {7}) +
          bytes_field(5, tensor_message("scale", kFloat, {1}, bytes_field(9, scale))) + output("y"),
      19);
  const ModelData model = parse(bytes);
  ThreadPool pool(1);
  const auto outputs = evaluate(model, {{"x", tensor({7}, 0)}}, pool);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  EXPECT_EQ(floats((*outputs)[0]), (std::vector<float>{1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6}));
}

TEST(OnnxEvaluate, FunctionsPassNanOn) {
  for (const char* type : {"Sign", "Celu", "Relu", "Elu"}) {
    const std::vector<float> found = results(type, {NAN, 1, -1, 0}, 14);
    EXPECT_TRUE(std::isnan(found[0])) << type;
    EXPECT_EQ(found[1], 1) << type;
    EXPECT_EQ(found[3], 0) << type;
  }
}

TEST(OnnxEvaluate, CountsParametersOnceAndMultiplyAdds) {
  const std::string bytes = model_message(
      node("MatMul", {"x", "w"}, {"a"}) + node("MatMul", {"a", "w"}, {"b"}) +
      node("Clip", {"b", "zero"}, {"c"}) + input("x", {2, 3}) +
      bytes_field(5, tensor_message("w", kFloat, {3, 3}, bytes_field(9, std::string(36, '\0')))) +
      bytes_field(5, tensor_message("zero", kFloat, {}, bytes_field(9, std::string(4, '\0')))) +
      output("c"));
  const ModelData model = parse(bytes);
  const Result<Survey> facts = survey(model, input_shapes(model));
  ASSERT_TRUE(facts.ok());
  ASSERT_EQ(facts->nodes.size(), 3u);
  EXPECT_EQ(facts->nodes[2].parameters, 0);
  EXPECT_EQ(facts->nodes[0].parameters, 9);
  EXPECT_EQ(facts->nodes[1].parameters, 0);
  EXPECT_EQ(facts->nodes[1].multiply_adds, 18);
  EXPECT_EQ(facts->outputs[0].tensor.dims, (Dims{2, 3}));
}

// Nodes that every exporter writes around a Reshape: the batch out of Shape, joined with -1.
std::string reshape_graph() {
  return node("Shape", {"x"}, {"s"}) + whole_numbers_tensor("zero", {0}) +
         node("Gather", {"s", "zero"}, {"n"}) + whole_numbers_tensor("open", {-1}) +
         node("Concat", {"n", "open"}, {"target"}, integer_attribute("axis", 0)) +
         node("Identity", {"x"}, {"same"}) +
         node("Cast", {"same"}, {"cast"}, integer_attribute("to", kFloat)) +
         node("Relu", {"cast"}, {"r"}) + node("Reshape", {"r", "target"}, {"flat"}) +
         node("Identity", {"flat"}, {"y"}) + input("x", {2, 3, 4}) + output("y");
}

TEST(OnnxFold, ShapeArithmeticBecomesAConstant) {
  const std::string bytes = model_message(reshape_graph());
  const ModelData model = parse(bytes);
  const Result<ModelData> folded = fold_constants(model, input_shapes(model));
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  EXPECT_EQ(operators(*folded), (std::vector<std::string>{"Relu", "Reshape"}));
  EXPECT_EQ(folded->graph.nodes[1].outputs[0], "y");
  ASSERT_EQ(folded->graph.initialisers.size(), 1u);
  EXPECT_EQ(*whole_numbers(folded->graph.initialisers[0]), (std::vector<int64_t>{2, -1}));
  ASSERT_EQ(folded->graph.values.size(), 1u);
  EXPECT_EQ(folded->graph.values[0].name, "r");
  EXPECT_EQ(folded->graph.outputs[0].dims.at(1).size, 12);
  ThreadPool pool(1);
  const Tensors inputs = {{"x", tensor({2, 3, 4}, -5)}};
  const auto before = evaluate(model, inputs, pool);
  const auto after = evaluate(*folded, inputs, pool);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ((*before)[0].dims, (Dims{2, 12}));
  EXPECT_EQ(floats((*before)[0]), floats((*after)[0]));
}

// Both branches use the names of the other's values.
std::string if_graph(bool condition, std::string_view name) {
  const auto branch = [](std::string_view type) {
    return node(type, {"x"}, {"inner"}) + node("Abs", {"inner"}, {"result"}) + output("result");
  };
  return bytes_field(5, tensor_message(name, kBool, {},
                                       bytes_field(9, std::string(1, condition ? '\1' : '\0')))) +
         node("If", {name}, {std::string(name) + "_out"},
              graph_attribute("then_branch", branch("Relu")) +
                  graph_attribute("else_branch", branch("Neg")));
}

TEST(OnnxFold, AnIfBecomesItsBranch) {
  const std::string bytes =
      model_message(if_graph(true, "yes") + if_graph(false, "no") +
                    node("Sub", {"yes_out", "no_out"}, {"y"}) + input("x", {2}) + output("y"));
  const ModelData model = parse(bytes);
  const Result<ModelData> folded = fold_constants(model, input_shapes(model));
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  EXPECT_EQ(operators(*folded), (std::vector<std::string>{"Relu", "Abs", "Neg", "Abs", "Sub"}));
  ThreadPool pool(1);
  const Tensors inputs = {{"x", tensor({2}, -3)}};
  const auto before = evaluate(model, inputs, pool);
  const auto after = evaluate(*folded, inputs, pool);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(floats((*before)[0]), (std::vector<float>{-3, -2}));
  EXPECT_EQ(floats((*after)[0]), (std::vector<float>{-3, -2}));
}

TEST(OnnxFold, ACastToTheTypeOfAnInputNeedsNoNumbers) {
  const std::string bytes =
      model_message(node("CastLike", {"two", "x"}, {"like"}) + node("Mul", {"x", "like"}, {"y"}) +
                    whole_numbers_tensor("two", {2}) + input("x", {3}) + output("y"));
  const ModelData model = parse(bytes);
  const Result<ModelData> folded = fold_constants(model, input_shapes(model));
  ASSERT_TRUE(folded.ok());
  EXPECT_EQ(operators(*folded), (std::vector<std::string>{"Mul"}));
  ThreadPool pool(1);
  for (const ModelData& each : {model, *folded}) {
    const auto outputs = evaluate(each, {{"x", tensor({3})}}, pool);
    ASSERT_TRUE(outputs.ok());
    EXPECT_EQ(floats((*outputs)[0]), (std::vector<float>{2, 4, 6}));
  }
}

TEST(OnnxFold, LeavesNodesThatItDoesNotKnow) {
  const std::string bytes = model_message(node("LSTM", {"x"}, {"a"}) + node("Relu", {"a"}, {"y"}) +
                                          input("x", {2}) + output("y"));
  const ModelData model = parse(bytes);
  const Result<ModelData> folded = fold_constants(model, input_shapes(model));
  ASSERT_TRUE(folded.ok());
  EXPECT_EQ(operators(*folded), (std::vector<std::string>{"LSTM", "Relu"}));
}

// A small file that would expand into gigabytes, or compute for minutes.
TEST(OnnxEvaluate, RefusesBombs) {
  const auto refuses = [](const std::string& graph, const char* words) {
    const std::string bytes = model_message(graph + input("x", {1}));
    const std::string found = fault(parse(bytes), {{"x", tensor({1})}});
    EXPECT_NE(found.find(words), std::string::npos) << words << " is not in: " << found;
  };
  const std::string wide = node("ConstantOfShape", {"s"}, {"a"});
  refuses(whole_numbers_tensor("s", {1 << 20, 1 << 20}) + wide, "is larger than 2.0 GiB");
  refuses(whole_numbers_tensor("s", {1 << 14, 1 << 14}) + wide, "constants outgrow the file");
  refuses(whole_numbers_tensor("s", {int64_t{1} << 62, 16}) + wide, "is larger than");
  refuses(whole_numbers_tensor("s", {4000, 4000}) + wide + node("MatMul", {"a", "a"}, {"b"}),
          "constants");
  std::string sums = whole_numbers_tensor("s", {4000, 4000}) + wide;
  for (int i = 0; i < 1000; ++i) {
    sums += node("ReduceMax", {"a"}, {"sum" + std::to_string(i)});
  }
  refuses(sums, "too much computing");
  refuses(whole_numbers_tensor("s", {1 << 20, 1 << 20}) + node("Expand", {"x", "s"}, {"a"}),
          "is larger than 2.0 GiB");
}

TEST(OnnxEvaluate, RefusesOddNodes) {
  const std::string bytes = model_message(
      node("Split", {"x"}, {}) + node("LayerNormalization", {"w", "w"}, {"a"}) +
      whole_numbers_tensor("huge", {0, int64_t{1} << 40, int64_t{1} << 40}) +
      node("ConstantOfShape", {"huge"}, {"b"}) + node("Add", {"x", "a"}, {"y"}) +
      bytes_field(5, tensor_message("w", kFloat, {2}, bytes_field(9, std::string(8, '\0')))) +
      input("x", {2}) + output("y"));
  const ModelData model = parse(bytes);
  const std::string words = fault(model, {{"x", tensor({2})}});
  EXPECT_NE(words.find("\"Split\": no output"), std::string::npos) << words;
  EXPECT_NE(words.find("[0, 1099511627776, 1099511627776] is larger"), std::string::npos) << words;
  // Outputs that nobody wants are no constants.
  const Result<ModelData> folded = fold_constants(model, input_shapes(model));
  ASSERT_TRUE(folded.ok());
  EXPECT_EQ(operators(*folded), (std::vector<std::string>{"Split", "ConstantOfShape", "Add"}));
}

TEST(OnnxEvaluate, DropoutDrawsTheSameNumbersAgain) {
  const std::string bytes = model_message(
      bytes_field(5, tensor_message("ratio", kFloat, {}, float_field(4, 0.25f))) +
      bytes_field(5, tensor_message("training", kBool, {}, number_field(5, 1))) +
      node("Dropout", {"x", "ratio", "training"}, {"y"}, integer_attribute("seed", 7)) +
      input("x", {10'000}) + output("y"));
  const ModelData model = parse(bytes);
  ThreadPool pool(1);
  const auto first = evaluate(model, {{"x", tensor({10'000})}}, pool);
  const auto second = evaluate(model, {{"x", tensor({10'000})}}, pool);
  ASSERT_TRUE(first.ok() && second.ok());
  const std::vector<float> kept = floats((*first)[0]);
  EXPECT_EQ(kept, floats((*second)[0]));
  int64_t dropped = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    dropped += kept[i] == 0;
    EXPECT_FLOAT_EQ(kept[i], kept[i] == 0 ? 0 : static_cast<float>(i + 1) / 0.75f);
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 200);
}

TEST(OnnxNumbers, HalvesRoundToNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float number = from_float16(static_cast<uint16_t>(bits));
    EXPECT_EQ(to_float16(number), bits);
    EXPECT_EQ(to_float16(-number), bits | 0x8000);
    const float next =
        bits + 1 == 0x7c00 ? 65536.0f : from_float16(static_cast<uint16_t>(bits + 1));
    const float middle = number / 2 + next / 2;
    // The tie goes to the even one.
    EXPECT_EQ(to_float16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    EXPECT_EQ(to_float16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(to_float16(std::nextafter(middle, 1e9f)), bits + 1);
  }
  EXPECT_TRUE(std::isnan(from_float16(to_float16(NAN))));
  EXPECT_EQ(to_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(to_bfloat16(1.00390625f), 0x3f80);
  EXPECT_EQ(to_bfloat16(1.01171875f), 0x3f82);
}

}  // namespace
}  // namespace mantissa::onnx
