// Demands of the methods' documents on a whole program that no test of a part covers:
// docs/claims.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "models/layers.h"
#include "tests/harness.h"
#include "tests/operators/gradient_check.h"

namespace mantissa::testing {
namespace {

// BlockFloat's units: convolution, pooling, activation (figure 7); linear and activation; the
// output layer. There is no ReLU: its gradient has only the bits that it is given.
Graph text_network(const ModelOptions& options) {
  Layers net("text", options);
  net.convolution("conv1", 5, 3, 1, 1, true);
  net.max_pool("pool1", 2, 2);
  net.sigmoid("sigmoid1");
  net.convolution("conv2", 4, 3, 2, 1, true);
  net.max_pool("pool2", 2, 2);
  net.tanh("tanh2");
  net.add(ops::kFlatten, "flatten");
  net.linear("linear1", 7);
  net.sigmoid("sigmoid3");
  auto graph = net.classify();
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

// [0012]-[0013]: 8 bits forward and 16 backward. Intermediate results have 32 bits, and so have the
// gradients from which gradients of weights are computed ([0128]).
TEST(BlockFloatText, OperandsHaveItsThreeWidths) {
  Harness harness({.format = "bfp8-text"}, text_network({}));
  const auto& instructions = harness.program().instructions;
  int seen[3] = {};
  for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
    const Instruction& instruction = instructions[i];
    const OpContext& c = harness.executor().context(i);
    if (instruction.op != &ops::kConvolution && instruction.op != &ops::kLinear) continue;
    SCOPED_TRACE(std::string(phase_name(instruction)) + " " + instruction.name);
    for (const ParameterView& p : c.parameters) {
      EXPECT_EQ(p.mantissa.type, DataType::kInt8);
      EXPECT_EQ(p.mantissa.bits, 8);
      EXPECT_EQ(p.accumulator.type, DataType::kInt16);
    }
    const bool is_last = instruction.name == "classifier";
    if (is_forward(instruction)) {
      EXPECT_EQ(c.inputs[0].bits, 8);
      EXPECT_EQ(c.output().type, is_last ? DataType::kInt32 : DataType::kInt8);
      ++seen[0];
    } else if (kind_of(instruction) == SegmentKind::kGradInput) {
      EXPECT_EQ(c.grad_output().bits, 16);
      ++seen[1];
    } else {
      EXPECT_EQ(c.inputs[0].bits, 8);
      EXPECT_EQ(c.grad_output().bits, 32);
      ++seen[2];
    }
  }
  EXPECT_EQ(seen[0], 4);
  EXPECT_EQ(seen[1], 3) << "none for the pictures";
  EXPECT_EQ(seen[2], 4);
}

// Each instruction of the text's own setting against its definition in double.
TEST(BlockFloatText, GradientsAreThoseOfTheDefinition) {
  ModelOptions options;
  options.height = 9, options.width = 8, options.classes = 5;
  Checked checked(text_network(options), 6, ops::LossKind::kCrossEntropy, 0,
                  *parse_format("bfp8-text"));
  checked.run();
  const auto names = checked.check();
  for (const char* name :
       {"backward_input sigmoid", "backward_input max_pool", "backward_input round_gradient",
        "backward_input convolution", "backward_weights convolution", "backward_weights linear"}) {
    EXPECT_GT(std::count(names.begin(), names.end(), name), 0) << name;
  }
}

int64_t largest_accumulator(Harness& harness) {
  int64_t largest = 0;
  for (const ParameterState& tensors : harness.state().layout().parameters) {
    if (tensors.accumulator < 0) continue;
    const auto* numbers = harness.state().data<int16_t>(tensors.accumulator);
    const int64_t count = harness.state().layout().tensors[tensors.accumulator].shape.count();
    for (int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, std::abs(int64_t{numbers[i]}));
    }
  }
  return largest;
}

// [0140]: a weight's unit is 2^shift of the accumulator's, and no more than half of one waits.
TEST(BlockFloat, AnotherSecondShiftUsesFewerBits) {
  const auto after = [](const char* format, int64_t* largest) {
    Harness harness({.model = "lenet5", .format = format});
    harness.train(5);
    *largest = largest_accumulator(harness);
    return harness.weights_sha256();
  };
  int64_t whole = 0, shifted = 0, narrow = 0;
  const std::string plain = after("bfp8", &whole);
  EXPECT_EQ(after("bfp:shift=7", &shifted), after("bfp:acc=8", &narrow));
  EXPECT_NE(after("bfp:shift=7", &shifted), plain);
  EXPECT_EQ(shifted, 64);
  EXPECT_GT(whole, 16000);
  EXPECT_LE(whole, 16384);
}

// The status of a step if the weights of all layers have this exponent.
Status step_with_weights_at(int16_t exponent, const char* format) {
  Harness harness({.model = "lenet5", .format = format, .batch_size = 4, .micro_batch_size = 4});
  const StateLayout& layout = harness.state().layout();
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    if (harness.graph().parameters[i].storage != Storage::kWeights) continue;
    *harness.state().data<int16_t>(layout.parameters[i].exponent) = exponent;
  }
  const ExampleSet& images = fashion_mnist().train;
  const std::vector<int32_t> labels = first_labels(images, 4);
  const auto result = harness.executor().train_step(
      std::array<const void*, 2>{images.pixels().data(), labels.data()},
      {.learning_rate = 0.01, .momentum = 0.9, .gradient_scale = 0.25});
  return result.ok() ? Status{} : result.error();
}

// [0076]-[0077]: an exponent has 8 bits. The step fails if one does not fit.
TEST(BlockFloat, AnExponentOfMoreThanEightBitsFailsTheStep) {
  for (const char* format : {"bfp8", "bfp:exponents=exact", "bfp8-text", "dfp8"}) {
    EXPECT_TRUE(step_with_weights_at(-9, format).ok()) << format;
    const Status status = step_with_weights_at(-128, format);
    ASSERT_FALSE(status.ok()) << format;
    EXPECT_NE(status.error().message.find("an exponent left -128..127"), std::string::npos)
        << status.error().message;
  }
}

// BlockFloat [0010] and figure 7, DynamicFixed's figure 1: convolution, pooling, activation, twice;
// two linear layers; output.
TEST(BlockFloat, LeNet5PoolsBeforeItActivates) {
  const Harness harness({.model = "lenet5"});
  std::vector<std::string> ops;
  for (const Node& node : harness.graph().nodes) ops.emplace_back(node.op->name);
  EXPECT_EQ(
      ops, (std::vector<std::string>{"normalise_input", "convolution", "max_pool", "relu",
                                     "convolution", "max_pool", "relu", "flatten", "linear", "relu",
                                     "linear", "relu", "linear", "softmax_cross_entropy"}));
}

// AsyncPipeline [0034]: gradients of the micro-batches of an update are added up and averaged, and
// after it the sums begin anew. So in each step a batch moves the weights as far in four
// micro-batches as in one. Only the order of float additions differs.
TEST(AsyncPipeline, GradientsAreAveragedAndBeginAnewBehindAnUpdate) {
  HarnessOptions options = {.model = "lenet5", .format = "fp32"};
  Harness whole(options);
  options.micro_batch_size = 4;
  Harness parts(options);
  const StateLayout& layout = whole.state().layout();
  for (int step = 0; step < 4; ++step) {
    std::vector<std::vector<float>> before;
    for (const ParameterState& tensors : layout.parameters) {
      const auto* weights = whole.state().data<float>(tensors.mantissa);
      before.emplace_back(weights, weights + layout.tensors[tensors.mantissa].shape.count());
    }
    whole.step(), parts.step();
    for (size_t p = 0; p < layout.parameters.size(); ++p) {
      const int tensor = layout.parameters[p].mantissa;
      const auto* a = whole.state().data<float>(tensor);
      const auto* b = parts.state().data<float>(tensor);
      double difference = 0, way = 0;
      for (size_t i = 0; i < before[p].size(); ++i) {
        difference = std::max(difference, std::abs(double{a[i]} - b[i]));
        way = std::max(way, std::abs(double{a[i]} - before[p][i]));
      }
      EXPECT_LE(difference, 1e-2 * way) << whole.graph().parameters[p].name << ", step " << step;
    }
  }
}

// AsyncPipeline [0002]: parameters are updated as soon as their gradients are there. They do not
// wait for the gradients of other layers.
TEST(AsyncPipeline, UpdatesWaitForNoOtherLayer) {
  for (const char* model : {"lenet5", "resnet8"}) {
    const Harness harness({.model = model});
    std::vector<int> node_of(harness.graph().parameters.size(), -1);
    for (size_t n = 0; n < harness.graph().nodes.size(); ++n) {
      for (const int p : harness.graph().nodes[n].parameters) node_of[p] = static_cast<int>(n);
    }
    int first = static_cast<int>(harness.graph().nodes.size()), updates = 0;
    for (const Instruction& instruction : harness.program().instructions) {
      const SegmentKind kind = kind_of(instruction);
      const bool backward = kind == SegmentKind::kGradWeights || kind == SegmentKind::kGradInput;
      if (backward && instruction.node >= 0) first = std::min(first, instruction.node);
      if (!updates_parameter(instruction)) continue;
      EXPECT_EQ(node_of[instruction.parameters()[0].index], first) << instruction.name;
      ++updates;
    }
    EXPECT_GT(updates, 9) << model;
  }
}

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// docs/claims.md names tests and files that are there.
TEST(Claims, NameTestsAndFilesThatExist) {
  const fs::path root = MANTISSA_SOURCE_FOLDER;
  std::string tests;
  for (const char* folder : {"src", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().string().ends_with("_test.cpp")) tests += text_of(entry.path());
    }
  }
  const std::string page = text_of(root / "docs" / "claims.md");
  const auto each_of = [](const std::string& text, const char* pattern, const auto& check) {
    const std::regex regex(pattern);
    int count = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it, ++count) {
      check(*it);
    }
    return count;
  };
  const auto each = [&](const char* pattern, const auto& check) {
    return each_of(page, pattern, check);
  };
  const auto expect_test = [&](const std::smatch& found) {
    const std::string suite = "(" + found.str(1) + ",", name = suite + " " + found.str(2);
    const bool is_there = found[2] == "*" ? tests.find(suite) != std::string::npos
                                          : tests.find(name + ")") != std::string::npos ||
                                                tests.find(name + ",") != std::string::npos;
    EXPECT_TRUE(is_there) << found.str();
  };
  // A function of a script, or the name of one of its checks.
  const auto expect_in_script = [&](const std::smatch& found) {
    const std::string script = text_of(root / "docs" / found.str(2));
    EXPECT_NE(script.find(found.str(1)), std::string::npos) << found.str();
  };
  const auto expect_file = [&](const std::smatch& found) {
    EXPECT_TRUE(fs::exists(root / "docs" / found.str(1))) << found.str();
  };
  constexpr const char* kTest = "`([A-Z]\\w+)[.]([A-Z]\\w+|[*])`";
  EXPECT_GT(each(kTest, expect_test), 50);
  EXPECT_GT(each_of(text_of(root / "ARCHITECTURE.md"), kTest, expect_test), 10);
  EXPECT_GT(each_of(text_of(root / "docs" / "methods.md"), kTest, expect_test), 0);
  EXPECT_GT(each("\\]\\(([^)#]+)[^)]*\\)", expect_file), 40);
  EXPECT_GT(each("`(\\w+)` in \\[\\w+[.]sh\\]\\(([^)]+)\\)", expect_in_script), 2);
  EXPECT_GT(each("\"([^\"]+)\" in \\[\\w+[.]sh\\]\\(([^)]+)\\)", expect_in_script), 1);
}

}  // namespace
}  // namespace mantissa::testing
