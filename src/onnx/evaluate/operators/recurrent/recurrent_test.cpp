// Directions, lengths and layouts of recurrent operators, against each other: ONNX's own tests have
// one direction.
#include <gtest/gtest.h>

#include <algorithm>

#include "onnx/evaluate/evaluate.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kSteps = 5, kBatch = 3, kInputs = 4, kChannels = 6;
constexpr int32_t kLengths[] = {5, 2, 4};

struct Kind {
  const char* op_type;
  int64_t gates;
  int64_t resets_product = 0;
};
constexpr Kind kKinds[] = {{"RNN", 1}, {"LSTM", 4}, {"GRU", 3}, {"GRU", 3, 1}};

// Numbers between -1 and 1, the same for the same name.
TensorData random_tensor(const std::string& name, const Dims& dims) {
  TensorData tensor = *allocate(ElementType::kFloat, dims);
  uint32_t seed = 1;
  for (const char c : name) seed = seed * 31 + static_cast<uint8_t>(c);
  for (float& number : writable<float>(tensor)) {
    seed = seed * 1664525 + 1013904223;
    number = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return tensor;
}

// dims [a, b, c, ...] of which [i, j] becomes [j, i].
TensorData swapped(const TensorData& from) {
  Dims dims = from.dims;
  std::swap(dims[0], dims[1]);
  TensorData to = *allocate(ElementType::kFloat, dims);
  const int64_t size = count_of({dims.begin() + 2, dims.end()});
  for (int64_t i = 0; i < dims[0]; ++i) {
    for (int64_t j = 0; j < dims[1]; ++j) {
      std::copy_n(numbers<float>(from).data() + (j * dims[0] + i) * size, size,
                  writable<float>(to).data() + (i * dims[1] + j) * size);
    }
  }
  return to;
}

// Part `i` along the first dimension.
TensorData part(const TensorData& from, int64_t i) {
  Dims dims = from.dims;
  dims[0] = 1;
  TensorData to = *allocate(ElementType::kFloat, dims);
  std::copy_n(numbers<float>(from).data() + i * count_of(dims), count_of(dims),
              writable<float>(to).data());
  return to;
}

Tensors inputs_of(const Kind& kind, int64_t directions) {
  const int64_t rows = kind.gates * kChannels;
  Tensors inputs;
  inputs["X"] = random_tensor("X", {kSteps, kBatch, kInputs});
  inputs["W"] = random_tensor("W", {directions, rows, kInputs});
  inputs["R"] = random_tensor("R", {directions, rows, kChannels});
  inputs["B"] = random_tensor("B", {directions, 2 * rows});
  inputs["lengths"] = *allocate(ElementType::kInt32, {kBatch});
  std::copy_n(kLengths, kBatch, writable<int32_t>(inputs["lengths"]).data());
  inputs["start"] = random_tensor("start", {directions, kBatch, kChannels});
  if (kind.gates == 4) {
    inputs["cell"] = random_tensor("cell", {directions, kBatch, kChannels});
    inputs["P"] = random_tensor("P", {directions, 3 * kChannels});
  }
  return inputs;
}

std::vector<TensorData> run(const Kind& kind, const std::string& direction, const Tensors& inputs,
                            int64_t layout = 0) {
  ModelData model;
  model.ir_version = 8;
  model.opsets[""] = 17;
  NodeData node;
  node.op_type = kind.op_type;
  node.attributes = {{"direction", direction}, {"layout", layout}};
  if (kind.resets_product != 0) node.attributes.push_back({"linear_before_reset", int64_t{1}});
  for (const char* name : {"X", "W", "R", "B", "lengths", "start", "cell", "P"}) {
    if (!inputs.contains(name)) continue;
    node.inputs.emplace_back(name);
    const TensorData& tensor = inputs.at(name);
    ValueData value{name, tensor.type, true, {}};
    for (const int64_t size : tensor.dims) value.dims.push_back({size, ""});
    model.graph.inputs.push_back(value);
  }
  node.outputs = {"Y", "last"};
  if (kind.gates == 4) node.outputs.emplace_back("last_cell");
  for (const std::string& name : node.outputs) {
    model.graph.outputs.push_back({name, ElementType::kFloat, false, {}});
  }
  model.graph.nodes.push_back(node);
  ThreadPool pool(2);
  auto outputs = evaluate(model, inputs, pool);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? *outputs : std::vector<TensorData>();
}

std::vector<float> output_floats(const TensorData& tensor) {
  const auto found = numbers<float>(tensor);
  return {found.begin(), found.end()};
}

// Row [step, direction, example] of an output.
std::vector<float> row(const TensorData& y, int64_t step, int64_t direction, int64_t example) {
  const float* from =
      numbers<float>(y).data() + ((step * y.dims[1] + direction) * y.dims[2] + example) * kChannels;
  return {from, from + kChannels};
}

TEST(OnnxRecurrent, BothDirectionsAreOneAndTheOther) {
  for (const Kind& kind : kKinds) {
    const Tensors both = inputs_of(kind, 2);
    const auto together = run(kind, "bidirectional", both);
    for (int64_t d = 0; d < 2; ++d) {
      Tensors one = both;
      for (auto& [name, tensor] : one) {
        if (name != "X" && name != "lengths") tensor = part(tensor, d);
      }
      const auto alone = run(kind, d == 0 ? "forward" : "reverse", one);
      ASSERT_EQ(alone.size(), together.size());
      for (int64_t t = 0; t < kSteps; ++t) {
        for (int64_t b = 0; b < kBatch; ++b) {
          EXPECT_EQ(row(together[0], t, d, b), row(alone[0], t, 0, b)) << kind.op_type;
        }
      }
      for (size_t i = 1; i < alone.size(); ++i) {
        EXPECT_EQ(output_floats(part(together[i], d)), output_floats(alone[i])) << kind.op_type;
      }
    }
  }
}

// Backward over the first steps is forward over these in the opposite order, and padding is zero.
TEST(OnnxRecurrent, BackwardIsForwardOfTheReversedSteps) {
  for (const Kind& kind : kKinds) {
    const Tensors inputs = inputs_of(kind, 1);
    Tensors turned = inputs;
    const TensorData& x = inputs.at("X");
    TensorData& other = turned["X"] = *allocate(ElementType::kFloat, x.dims);
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t t = 0; t < kLengths[b]; ++t) {
        std::copy_n(numbers<float>(x).data() + (t * kBatch + b) * kInputs, kInputs,
                    writable<float>(other).data() + ((kLengths[b] - 1 - t) * kBatch + b) * kInputs);
      }
    }
    const auto back = run(kind, "reverse", inputs), forward = run(kind, "forward", turned);
    ASSERT_EQ(back.size(), forward.size());
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t t = 0; t < kSteps; ++t) {
        const bool counts = t < kLengths[b];
        EXPECT_EQ(row(back[0], t, 0, b), counts ? row(forward[0], kLengths[b] - 1 - t, 0, b)
                                                : std::vector<float>(kChannels, 0.0f));
      }
    }
    for (size_t i = 1; i < back.size(); ++i)
      EXPECT_EQ(output_floats(back[i]), output_floats(forward[i]));
  }
}

TEST(OnnxRecurrent, ExamplesMayBeOutermost) {
  for (const Kind& kind : kKinds) {
    Tensors inputs = inputs_of(kind, 2);
    const auto by_step = run(kind, "bidirectional", inputs);
    for (const char* name : {"X", "start", "cell"}) {
      if (inputs.contains(name)) inputs[name] = swapped(inputs[name]);
    }
    const auto by_example = run(kind, "bidirectional", inputs, 1);
    ASSERT_EQ(by_example.size(), by_step.size());
    EXPECT_EQ(by_example[0].dims, (Dims{kBatch, kSteps, 2, kChannels}));
    for (int64_t t = 0; t < kSteps; ++t) {
      for (int64_t d = 0; d < 2; ++d) {
        for (int64_t b = 0; b < kBatch; ++b) {
          const float* found =
              numbers<float>(by_example[0]).data() + ((b * kSteps + t) * 2 + d) * kChannels;
          EXPECT_EQ(std::vector<float>(found, found + kChannels), row(by_step[0], t, d, b));
        }
      }
    }
    for (size_t i = 1; i < by_step.size(); ++i) {
      EXPECT_EQ(output_floats(swapped(by_example[i])), output_floats(by_step[i]));
    }
  }
}

}  // namespace
}  // namespace mantissa::onnx
