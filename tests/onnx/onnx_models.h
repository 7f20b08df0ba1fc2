// ONNX models built in memory, node by node, and their import compared with a plain evaluation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "models/json/network_json.h"
#include "onnx/evaluate/evaluate.h"
#include "tests/onnx/imported.h"

namespace mantissa::testing {

using onnx::ElementType;
using onnx::ImportedNetwork;
using onnx::ModelData;
using onnx::NodeAttribute;
using onnx::TensorData;

using Wholes = std::vector<int64_t>;

template <typename T>
TensorData tensor_of(const std::string& name, ElementType type, Wholes dims,
                     std::vector<T> numbers) {
  auto kept = std::make_shared<const std::vector<T>>(std::move(numbers));
  return {name, type, std::move(dims), std::as_bytes(std::span(*kept)), kept};
}

inline double uniform(const std::string& name, int64_t i) {
  const uint64_t bits = random_bits(std::hash<std::string>{}(name), RandomStream::kShuffle, 0,
                                    static_cast<uint64_t>(i));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// A model with an input "x" of [2, C, H, W], built node by node.
class Model {
 public:
  Model(int64_t channels, int64_t height, int64_t width)
      : channels_(channels), height_(height), width_(width) {
    model_.ir_version = 8;
    model_.opsets[""] = 17;
    model_.graph.name = "net";
    model_.graph.inputs.push_back({"x",
                                   ElementType::kFloat,
                                   true,
                                   {{kBatch, ""}, {channels, ""}, {height, ""}, {width, ""}}});
  }
  // A model with an input "x" of these sizes, of which -1 is open, of tokens or numbers.
  Model(ElementType type, const Wholes& dims) : channels_(0), height_(0), width_(0) {
    model_.ir_version = 8;
    model_.opsets[""] = 20;
    model_.graph.name = "net";
    model_.graph.inputs.push_back({"x", type, true, {}});
    for (const int64_t dim : dims) model_.graph.inputs[0].dims.push_back({dim, ""});
  }
  // Another input, of lengths.
  void add_lengths_input(const std::string& name, int64_t batch) {
    model_.graph.inputs.push_back({name, ElementType::kInt32, true, {{batch, ""}}});
  }
  // Another one, of any type.
  void add_input(const std::string& name, ElementType type, const Wholes& dims) {
    model_.graph.inputs.push_back({name, type, true, {}});
    for (const int64_t dim : dims) model_.graph.inputs.back().dims.push_back({dim, ""});
  }
  static constexpr int64_t kBatch = 2;

  // A constant of random numbers between the limits.
  std::string weights(const std::string& name, Wholes dims, double low = -0.5, double high = 0.5) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<float>(low + (high - low) * uniform(name, i)));
    }
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kFloat, std::move(dims), std::move(numbers)));
    return name;
  }
  std::string number(const std::string& name, float value) {
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kFloat, {}, std::vector<float>{value}));
    return name;
  }
  std::string numbers(const std::string& name, Wholes dims, std::vector<float> list) {
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kFloat, std::move(dims), std::move(list)));
    return name;
  }
  std::string wholes(const std::string& name, Wholes numbers) {
    const auto count = std::ssize(numbers);
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kInt64, {count}, std::move(numbers)));
    return name;
  }
  std::string lengths(const std::string& name, std::vector<int32_t> numbers) {
    const auto count = std::ssize(numbers);
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kInt32, {count}, std::move(numbers)));
    return name;
  }
  std::string whole(const std::string& name, int64_t number) {
    model_.graph.initialisers.push_back(
        tensor_of(name, ElementType::kInt64, {}, std::vector<int64_t>{number}));
    return name;
  }
  void tensor(TensorData constant) { model_.graph.initialisers.push_back(std::move(constant)); }
  void set_opset(int64_t version) { model_.opsets[""] = version; }
  // Any number of pictures.
  void open_batch() { model_.graph.inputs[0].dims[0] = {-1, "N"}; }
  // A node with several outputs, which have these names.
  void add_all(const std::string& op, const std::string& name, std::vector<std::string> inputs,
               std::vector<std::string> outputs, std::vector<NodeAttribute> attributes = {}) {
    model_.graph.nodes.push_back(
        {name, op, "", std::move(inputs), std::move(outputs), std::move(attributes)});
  }
  // A Split along an axis; returns its outputs.
  std::vector<std::string> split(const std::string& name, std::vector<std::string> inputs,
                                 std::vector<std::string> outputs, int64_t axis) {
    model_.graph.nodes.push_back({name, "Split", "", std::move(inputs), outputs, {{"axis", axis}}});
    return outputs;
  }
  // Returns the node's output, which has the node's name.
  std::string add(const std::string& op, const std::string& name, std::vector<std::string> inputs,
                  std::vector<NodeAttribute> attributes = {}) {
    model_.graph.nodes.push_back({name, op, "", std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
  // The same of ONNX Runtime's own domain.
  std::string add_microsoft(const std::string& op, const std::string& name,
                            std::vector<std::string> inputs,
                            std::vector<NodeAttribute> attributes) {
    model_.opsets["com.microsoft"] = 1;
    model_.graph.nodes.push_back(
        {name, op, "com.microsoft", std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
  std::string conv(const std::string& name, const std::string& input, Wholes dims, Wholes pads,
                   std::vector<NodeAttribute> more = {}) {
    more.push_back({"pads", std::move(pads)});
    const int64_t channels = dims[0];
    return add(
        "Conv", name,
        {input, weights(name + ".weight", std::move(dims)), weights(name + ".b", {channels})},
        std::move(more));
  }
  std::string norm(const std::string& name, const std::string& input, int64_t channels,
                   float epsilon = 1e-5f) {
    return add(
        "BatchNormalization", name,
        {input, weights(name + ".weight", {channels}, 0.5, 1.5), weights(name + ".b", {channels}),
         weights(name + ".m", {channels}), weights(name + ".v", {channels}, 0.5, 2)},
        {{"epsilon", epsilon}});
  }
  const ModelData& finish(const std::string& output) {
    return finish(std::vector<std::string>{output});
  }
  const ModelData& finish(const std::vector<std::string>& outputs) {
    model_.graph.outputs.clear();
    for (const std::string& output : outputs) {
      model_.graph.outputs.push_back({output, ElementType::kFloat, false, {}});
    }
    return model_;
  }

  std::vector<uint8_t> pixels() const {  // [N, H, W, C]
    std::vector<uint8_t> all(static_cast<size_t>(kBatch * channels_ * height_ * width_));
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<uint8_t>(uniform("pixels", static_cast<int64_t>(i)) * 255.99);
    }
    return all;
  }
  // What the model is given for these pixels.
  TensorData input(double mean, double deviation) const {
    const std::vector<uint8_t> from = pixels();
    std::vector<float> numbers(from.size());
    for (int64_t n = 0; n < kBatch; ++n) {
      for (int64_t i = 0; i < height_ * width_; ++i) {
        for (int64_t c = 0; c < channels_; ++c) {
          const double pixel = from[(n * height_ * width_ + i) * channels_ + c] / 255.0;
          numbers[(n * channels_ + c) * height_ * width_ + i] =
              static_cast<float>((pixel - mean) / deviation);
        }
      }
    }
    return tensor_of("x", ElementType::kFloat, {kBatch, channels_, height_, width_},
                     std::move(numbers));
  }

 private:
  ModelData model_;
  int64_t channels_, height_, width_;
};

inline constexpr double kPixelMean = 0.43, kPixelDeviation = 0.26;

inline Result<ImportedNetwork> imported(const ModelData& model) {
  return onnx::import_network(model, {.mean = {kPixelMean}, .deviation = {kPixelDeviation}, .output = ""});
}

// Imports a model that the plain evaluation does not know.
inline ImportedNetwork imported_only(Model& model, const std::string& output) {
  auto network = imported(model.finish(output));
  EXPECT_TRUE(network.ok()) << network.error().message;
  return network.ok() ? std::move(*network) : ImportedNetwork{};
}

// Within 2e-5 of the largest.
inline void expect_near(const TensorData& wanted, const std::vector<float>& logits,
                        const Graph& graph) {
  EXPECT_EQ(wanted.bytes.size(), logits.size() * sizeof(float));
  double largest = 0, difference = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    float number = 0;
    std::memcpy(&number, wanted.bytes.data() + i * sizeof(float), sizeof(float));
    largest = std::max<double>(largest, std::abs(number));
    difference = std::max<double>(difference, std::abs(number - logits[i]));
  }
  EXPECT_GT(largest, 1e-3);
  EXPECT_LE(difference, 2e-5 * largest) << to_string(graph);
}

// The network's JSON is read back to the same network.
inline void expect_json(const ImportedNetwork& network) {
  const auto again = parse_network(to_json(network.graph));
  EXPECT_TRUE(again.ok()) << (again.ok() ? "" : again.error().message);
  EXPECT_EQ(again.ok() ? to_json(*again) : "", to_json(network.graph));
}

// Imports the model, and compares its logits with those of a plain evaluation. The network's JSON
// is read back to the same network.
inline ImportedNetwork expect_same(Model& model, const std::string& output) {
  const ModelData& data = model.finish(output);
  auto network = imported(data);
  EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
  if (!network.ok()) return {};
  expect_json(*network);
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(data, {{"x", model.input(kPixelMean, kPixelDeviation)}}, pool);
  EXPECT_TRUE(expected.ok()) << (expected.ok() ? "" : expected.error().message);
  auto run = ImportedRun::create(*network, Model::kBatch, false);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
  if (!run.ok() || !expected.ok()) return {};
  const auto logits = (*run)->logits(model.pixels());
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
  if (!logits.ok()) return {};
  expect_near((*expected)[0], *logits, network->graph);
  return std::move(*network);
}

inline std::vector<std::string> ops_of(const ImportedNetwork& network) {
  std::vector<std::string> names;
  for (const Node& node : network.graph.nodes) names.emplace_back(node.op->name);
  return names;
}

inline int64_t count_of(const ImportedNetwork& network, const std::string& op) {
  const auto names = ops_of(network);
  return std::count(names.begin(), names.end(), op);
}

// The mean over the image and a linear layer.
inline std::string classify(Model& model, const std::string& value, int64_t channels) {
  const std::string mean = model.add("GlobalAveragePool", "mean", {value});
  const std::string flat = model.add("Flatten", "flat", {mean});
  return model.add("Gemm", "fc",
                   {flat, model.weights("fc.weight", {5, channels}), model.weights("fc.b", {5})},
                   {{"transB", int64_t{1}}});
}

}  // namespace mantissa::testing
