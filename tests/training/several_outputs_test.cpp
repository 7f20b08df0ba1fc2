// Runs of a network with several outputs: its gradient is the sum of those of its losses, and its
// bits depend on neither threads nor interruptions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <regex>

#include "base/test_folder.h"
#include "formats/arrays/npz.h"
#include "formats/arrays/safetensors.h"
#include "mantissa/mantissa.h"
#include "mantissa/runs.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kExamples = 64;

// Two classes by the sign of one number, and a number of both.
struct Data {
  std::vector<float> numbers, ages;
  std::vector<uint8_t> kinds;

  Data() {
    for (int i = 0; i < kExamples; ++i) {
      const float a = static_cast<float>(i % 8) - 3.5F, b = static_cast<float>(i / 8) - 3.5F;
      numbers.insert(numbers.end(), {a, b});
      kinds.push_back(a > 0 ? 1 : 0);
      ages.push_back(3 * a + 7 * b);
    }
  }
  template <typename T>
  static NpyView array(const char* name, NpyType type, const std::vector<T>& values) {
    const auto each = std::ssize(values) / kExamples;
    std::vector<int64_t> shape = {kExamples};
    if (each > 1) shape.push_back(each);
    return {name, type, shape, std::as_bytes(std::span(values))};
  }
};

const std::string kHead = R"({"format": "mantissa network 1", "name": "net", "nodes": [
  {"name": "vector", "op": "input", "type": "int16", "shape": [2], "exponent": -12},
  {"name": "values", "op": "quantise_input", "inputs": ["vector"]},
  {"name": "trunk", "op": "linear", "inputs": ["values"], "attributes": {"channels": 8}},
  {"name": "relu", "op": "relu", "inputs": ["trunk"]},)";
const std::string kKinds = R"(
  {"name": "kinds", "op": "linear", "inputs": ["relu"],
   "attributes": {"channels": 2, "classifier": true}},)";
const std::string kYears = R"(
  {"name": "years", "op": "linear", "inputs": ["relu"],
   "attributes": {"channels": 1, "classifier": true}},)";

std::string label(const std::string& name) {
  return R"({"name": ")" + name + R"(", "op": "input", "type": "int32", "shape": []},)";
}
std::string number(const std::string& name) {
  return R"({"name": ")" + name +
         R"(", "op": "input", "type": "int16", "shape": [1], "exponent": -10},)";
}
std::string kind_loss(const std::string& labels) {
  return R"({"name": "a", "op": "softmax_cross_entropy", "inputs": ["kinds", ")" + labels + "\"]}";
}
std::string age_loss(const std::string& targets) {
  return R"({"name": "b", "op": "regression_error", "inputs": ["years", ")" + targets + "\"]}";
}

class TrainedOutputs : public ::testing::Test {
 protected:
  TrainedOutputs() {
    const std::vector<NpyView> arrays = {Data::array("vector", NpyType::kFloat, data_.numbers),
                                         Data::array("vector_test", NpyType::kFloat, data_.numbers)};
    const auto put = [&](const char* name, std::vector<NpyView> targets) {
      targets.insert(targets.end(), arrays.begin(), arrays.end());
      EXPECT_TRUE(write_npz(folder_ / name, targets).ok());
    };
    const auto kinds = [&](const char* name) {
      return Data::array(name, NpyType::kUint8, data_.kinds);
    };
    const auto ages = [&](const char* name) {
      return Data::array(name, NpyType::kFloat, data_.ages);
    };
    put("both.npz", {kinds("kind"), kinds("kind_test"), ages("age"), ages("age_test")});
    put("kinds.npz", {kinds("y"), kinds("y_test")});
    put("ages.npz", {ages("y"), ages("y_test")});
    write("both", kHead + label("kind") + number("age") + kKinds + kYears + kind_loss("kind") +
                      "," + age_loss("age") +
                      R"(], "outputs": ["kinds", "years"], "losses": ["a", "b"]})");
    write("kinds", kHead + label("labels") + kKinds + kind_loss("labels") +
                       R"(], "outputs": ["kinds"], "losses": ["a"]})");
    write("ages", kHead + number("targets") + kYears + age_loss("targets") +
                      R"(], "outputs": ["years"], "losses": ["b"]})");
  }
  void write(const std::string& name, const std::string& json) const {
    std::ofstream(folder_ / (name + ".json")) << json;
  }

  // The summary of a run.
  std::string run(const std::string& network, const std::string& name, Settings more) const {
    more.insert({{"model", folder_ / (network + ".json")},
                 {"data", folder_ / (network + ".npz")},
                 {"batch-size", "32"},
                 {"learning-rate", "0.1"},
                 {"epochs", "4"},
                 {"out", folder_ / name}});
    const auto outcome = train(more);
    EXPECT_EQ(outcome.error(), "");
    return outcome.ok() ? outcome->summary_json : "";
  }

  // The trunk's weights after some epochs of one step each, without momentum and decay. All
  // networks begin with the weights of the run `start`, or make them.
  std::vector<float> trunk(const std::string& network, const std::string& epochs,
                           const std::string& start) const {
    const std::string name = network + epochs;
    Settings settings = {{"format", "fp32"},
                         {"batch-size", std::to_string(kExamples)},
                         {"epochs", epochs},
                         {"lr-schedule", "constant"},
                         {"optimizer", "sgd"},
                         {"weight-decay", "0"}};
    if (!start.empty()) settings["from"] = folder_ / start;
    run(network, name, settings);
    const auto file = trained_parameters(folder_ / name, "trunk.weights");
    EXPECT_EQ(file.error(), "");
    if (!file.ok()) return {};
    const auto tensors = parse_safetensors(file->file, "trunk");
    EXPECT_TRUE(tensors.ok());
    for (const SafetensorsTensor& tensor : tensors->tensors) {
      if (tensor.name != "trunk.weights") continue;
      std::vector<float> weights(tensor.data.size() / sizeof(float));
      std::memcpy(weights.data(), tensor.data.data(), tensor.data.size());
      return weights;
    }
    ADD_FAILURE() << "no weights";
    return {};
  }

  static std::string entry(const std::string& json, const std::string& name) {
    const size_t at = json.find('"' + name + '"');
    return at == std::string::npos ? "" : json.substr(at, json.find('\n', at) - at);
  }

  const Data data_;
  TestFolder folder_;
};

TEST_F(TrainedOutputs, AddTheirGradients) {
  const std::vector<float> before = trunk("both", "0", ""), both = trunk("both", "1", "both0"),
                           kinds = trunk("kinds", "1", "both0"), ages = trunk("ages", "1", "both0");
  ASSERT_EQ(before.size(), 16u);
  double largest = 0, of_kinds = 0, of_ages = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double by_kinds = kinds[i] - before[i], by_ages = ages[i] - before[i];
    of_kinds = std::max(of_kinds, std::abs(by_kinds));
    of_ages = std::max(of_ages, std::abs(by_ages));
    largest = std::max(largest, std::abs(both[i] - before[i] - by_kinds - by_ages));
  }
  EXPECT_GT(of_kinds, 1e-3);
  EXPECT_GT(of_ages, 1e-3);
  EXPECT_LT(largest, 1e-6);
}

TEST_F(TrainedOutputs, HaveTheSameBitsWithOtherThreadsAndResumed) {
  const std::string one = run("both", "one", {{"threads", "1"}});
  EXPECT_NE(entry(one, "state_sha256"), "");
  EXPECT_EQ(entry(one, "state_sha256"),
            entry(run("both", "two", {{"threads", "2"}}), "state_sha256"));
  const Settings settings = {{"model", folder_ / "both.json"}, {"data", folder_ / "both.npz"},
                             {"batch-size", "32"},            {"learning-rate", "0.1"},
                             {"epochs", "4"},                 {"out", folder_ / "stopped"}};
  const auto stopped = train(settings, [](const Progress& progress) {
    return progress.kind != Progress::Kind::kStep || progress.step < 3;
  });
  EXPECT_EQ(stopped.failure().exit, Exit::kInterrupted) << stopped.error();
  Settings resumed = settings;
  resumed["resume"] = "true";
  const auto ended = train(resumed);
  ASSERT_EQ(ended.error(), "");
  for (const char* name : {"state_sha256", "test_loss", "test_accuracy", "test_r2"}) {
    EXPECT_EQ(entry(ended->summary_json, name), entry(one, name));
  }
  const auto lines = [&](const char* name) {
    std::ifstream metrics(folder_ / name / "metrics.jsonl");
    std::string text{std::istreambuf_iterator<char>(metrics), {}};
    return std::regex_replace(text, std::regex("\"examples_per_second\":[^,]*,"), "");
  };
  EXPECT_NE(lines("one").find("\"loss.age\""), std::string::npos);
  EXPECT_EQ(lines("stopped"), lines("one"));
}

TEST_F(TrainedOutputs, AreReportedOneByOne) {
  const std::string summary = run("both", "run", {});
  const auto loss = [&](size_t from) {
    const size_t at = summary.find("\"test_loss\": ", from) + 13;
    return std::stod(summary.substr(at));
  };
  const size_t outputs = summary.find("\"outputs\"");
  ASSERT_NE(outputs, std::string::npos) << summary;
  const size_t kind = summary.find("\"kind\"", outputs), age = summary.find("\"age\"", outputs);
  ASSERT_NE(age, std::string::npos) << summary;
  EXPECT_LT(summary.find("\"test_accuracy\"", kind), age);
  EXPECT_NE(summary.find("\"test_r2\"", age), std::string::npos);
  EXPECT_NEAR(loss(0), loss(kind) + loss(age), 1e-6) << summary;
}

}  // namespace
}  // namespace mantissa::testing
