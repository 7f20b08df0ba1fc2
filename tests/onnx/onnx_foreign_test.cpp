// Small files as other tools write them (tests/fixtures/foreign), and the logits that ONNX Runtime
// gives for them: `run` gives the same, and so does the network that is imported.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "onnx/files/reader.h"
#include "ops/attributes.h"
#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kBatch = 2, kSide = 28;

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(MANTISSA_SOURCE_FOLDER) / "tests/fixtures/foreign" / name;
}

// The pixels that the logits are of.
std::vector<uint8_t> pixels() {
  std::vector<uint8_t> all;
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t h = 0; h < kSide; ++h) {
      for (int64_t w = 0; w < kSide; ++w) {
        all.push_back(static_cast<uint8_t>((n * 37 + h * 11 + w * 5 + h * w) % 256));
      }
    }
  }
  return all;
}

// By the file's name.
std::map<std::string, std::vector<double>> logits_of_onnx_runtime() {
  std::map<std::string, std::vector<double>> all;
  std::ifstream file(fixture("logits.txt"));
  for (std::string line, name; std::getline(file, line);) {
    std::istringstream words(line);
    words >> name;
    for (double number = 0; words >> number;) all[name].push_back(number);
  }
  return all;
}

ModelData model_of(const std::string& name) {
  auto model = onnx::read_model(fixture(name + ".onnx"));
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? std::move(*model) : ModelData();
}

Result<ImportedNetwork> imported_file(const std::string& name) {
  return onnx::import_network(model_of(name), {.mean = {0}, .deviation = {1}, .output = ""});
}

// The logits of each example less the largest: what a softmax behind them does not change.
std::vector<double> below_largest(std::vector<double> numbers) {
  const auto each = std::ssize(numbers) / kBatch;
  for (auto first = numbers.begin(); first != numbers.end(); first += each) {
    const double most = *std::max_element(first, first + each);
    for (auto number = first; number != first + each; ++number) *number -= most;
  }
  return numbers;
}

void expect_close(const std::string& name, std::vector<double> wanted, std::vector<double> numbers,
                  double allowed = 1e-4) {
  ASSERT_EQ(wanted.size(), numbers.size()) << name;
  if (name == "keras_nhwc") {  // its output is behind a softmax
    for (double& number : wanted) number = std::log(number);
    wanted = below_largest(wanted);
    numbers = below_largest(numbers);
  }
  double largest = 0, difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    difference = std::max(difference, std::abs(wanted[i] - numbers[i]));
  }
  EXPECT_LE(difference, allowed * largest) << name;
}

TEST(OnnxForeign, RunGivesTheLogitsOfOnnxRuntime) {
  const std::vector<uint8_t> bytes = pixels();
  std::vector<float> numbers;
  for (const uint8_t byte : bytes) numbers.push_back(static_cast<float>(byte) / 255.0f);
  for (const auto& [name, wanted] : logits_of_onnx_runtime()) {
    const bool is_last = name == "keras_nhwc";
    const TensorData x = tensor_of(
        "x", ElementType::kFloat,
        is_last ? Wholes{kBatch, kSide, kSide, 1} : Wholes{kBatch, 1, kSide, kSide}, numbers);
    ThreadPool pool(1);
    const auto outputs = onnx::evaluate(model_of(name), {{"x", x}}, pool);
    ASSERT_TRUE(outputs.ok()) << name << ": " << outputs.error().message;
    const auto found = onnx::numbers<float>((*outputs)[0]);
    ASSERT_EQ(found.size(), wanted.size()) << name;
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-5) << name;
  }
}

TEST(OnnxForeign, ImportedNetworksGiveTheLogitsOfOnnxRuntimeAndTrain) {
  const auto wanted = logits_of_onnx_runtime();
  for (const char* name :
       {"bn_eps0", "bn_eps1e8_var1e6", "convhead_flatten", "convhead_reshape", "gmp", "keras_nhwc",
        "local_function", "mish", "opset24", "prelu_c11", "prelu_one", "qdq"}) {
    const auto network = imported_file(name);
    ASSERT_TRUE(network.ok()) << name << ": " << network.error().message;
    expect_json(*network);
    auto run = ImportedRun::create(*network, kBatch, false);
    ASSERT_TRUE(run.ok()) << name << ": " << run.error().message;
    const auto logits = (*run)->logits(pixels());
    ASSERT_TRUE(logits.ok()) << name << ": " << logits.error().message;
    expect_close(name, wanted.at(name), {logits->begin(), logits->end()});
    auto training = ImportedRun::create(*network, kBatch, true);
    ASSERT_TRUE(training.ok()) << name << ": " << training.error().message;
    const auto gradients = (*training)->gradients(pixels(), {1, 3});
    ASSERT_TRUE(gradients.ok()) << name << ": " << gradients.error().message;
    double sum = 0;
    for (const auto& of_parameter : *gradients) {
      for (const float gradient : of_parameter) sum += std::abs(gradient);
    }
    EXPECT_TRUE(sum > 1e-3 && sum < 1e4) << name << ": " << sum;
  }
}

// Files of onnxruntime.quantization: pairs (QDQ), operators on whole numbers (QOperator), layers
// that quantise their input as it comes; weights by tensor and by channel, of int8 and uint8. Their
// network in real numbers differs by the steps of the grids that are left out: the output's, and
// those of inputs that are quantised as they come.
TEST(OnnxForeign, QuantisedNetworksAreImportedInRealNumbers) {
  const auto wanted = logits_of_onnx_runtime();
  for (const auto& [name, note] : {std::pair{"ort_qdq_pc", ""},
                                   {"ort_qdq_int8", ""},
                                   {"ort_qoperator_pc", "5 operators on quantised numbers"},
                                   {"ort_qoperator_int8", "5 operators on quantised numbers"},
                                   {"ort_qoperator_uint8", "5 operators on quantised numbers"},
                                   {"ort_dynamic_int8", "4 layers that quantise their input"},
                                   {"ort_dynamic_pc", "4 layers that quantise their input"},
                                   {"ort_dynamic_uint8", "4 layers that quantise their input"}}) {
    const auto network = imported_file(name);
    ASSERT_TRUE(network.ok()) << name << ": " << network.error().message;
    expect_json(*network);
    const bool has_note =
        std::any_of(network->notes.begin(), network->notes.end(),
                    [&, text = note](const std::string& line) { return line.starts_with(text); });
    EXPECT_TRUE(has_note) << name;
    auto run = ImportedRun::create(*network, kBatch, false);
    ASSERT_TRUE(run.ok()) << name << ": " << run.error().message;
    const auto logits = (*run)->logits(pixels());
    ASSERT_TRUE(logits.ok()) << name << ": " << logits.error().message;
    expect_close(name, wanted.at(name), {logits->begin(), logits->end()}, 0.02);
  }
}

// The grids of both forms of a file are the same, and so are the networks.
TEST(OnnxForeign, BothFormsOfAQuantisedNetworkGiveTheSame) {
  std::vector<std::vector<float>> all;
  for (const char* name : {"ort_qdq_pc", "ort_qoperator_pc"}) {
    const auto network = imported_file(name);
    ASSERT_TRUE(network.ok()) << name << ": " << network.error().message;
    auto run = ImportedRun::create(*network, kBatch, false);
    ASSERT_TRUE(run.ok()) << name << ": " << run.error().message;
    const auto logits = (*run)->logits(pixels());
    ASSERT_TRUE(logits.ok()) << name << ": " << logits.error().message;
    all.emplace_back(logits->begin(), logits->end());
  }
  EXPECT_EQ(all[0], all[1]);
}
// Filters that are small beside ours of 1e-5 have the size of the others, so that few bits hold
// them.
TEST(OnnxForeign, QuietFiltersBeforeABatchNormAreMadeLoud) {
  for (const char* name : {"bn_eps0", "bn_eps1e8_var1e6"}) {
    const auto network = imported_file(name);
    ASSERT_TRUE(network.ok()) << network.error().message;
    for (const auto& parameter : network->parameters) {
      if (!parameter.name.ends_with("running_variance")) continue;
      for (const double variance : parameter.doubles) EXPECT_GT(variance, 1e-4) << name;
    }
  }
}

// The head of a classifier is a linear layer, so that another number of classes replaces it.
TEST(OnnxForeign, AConvolutionThatMakesTheLogitsIsALinearLayer) {
  for (const char* name : {"convhead_flatten", "convhead_reshape"}) {
    const auto network = imported_file(name);
    ASSERT_TRUE(network.ok()) << network.error().message;
    EXPECT_EQ(count_of(*network, "linear"), 1) << name;
    EXPECT_EQ(count_of(*network, "convolution"), 1) << name;
    EXPECT_TRUE(network->notes.size() == 1) << name;  // of the pixels
  }
}

TEST(OnnxForeign, PairsOfQuantisersAreNodesWithTheirScales) {
  const auto network = imported_file("qdq");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(count_of(*network, "quantise"), 1);  // that of the pixels says nothing new
  for (const Node& node : network->graph.nodes) {
    if (std::string(node.op->name) != "quantise") continue;
    EXPECT_EQ(node.attributes.as<ops::QuantiseAttributes>().bits, 8);
    EXPECT_FALSE(network->graph.parameters[node.parameters[0]].trained);
  }
  for (const auto& parameter : network->parameters) {
    if (!parameter.name.ends_with(".range")) continue;
    const ModelData model = model_of("qdq");
    for (const TensorData& tensor : model.graph.initialisers) {
      if (tensor.name != "sr") continue;
      const float scale = onnx::numbers<float>(tensor)[0];
      EXPECT_NEAR(parameter.floats[0] / (255 * scale), 1, 1e-6);
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
