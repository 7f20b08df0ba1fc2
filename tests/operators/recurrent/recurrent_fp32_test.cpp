// Recurrent layers in fp32 with several panels of channels and several products for the weights'
// gradients: results against the definition in double, gradients along random directions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "ops/ops.h"
#include "tests/operators/definitions.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kSteps = 7, kChannels = 70, kSequences = 90;

using Floats = std::vector<float>;

class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed) {}
  float operator()(float largest) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (static_cast<float>(state_ >> 40) * 0x1p-23F - 1) * largest;
  }
  Floats operator()(int64_t count, float largest) {
    Floats numbers(static_cast<size_t>(count));
    for (float& each : numbers) each = (*this)(largest);
    return numbers;
  }

 private:
  uint64_t state_;
};

Reals doubles(const Floats& from) { return {from.begin(), from.end()}; }

// A layer's operands and all its results. Operands are the input's part of the gates, h and an
// LSTM's cell at the start, weights, and an LSTM's peepholes or a GRU's bias.
struct FloatLayer {
  int gates;
  std::vector<int32_t> lengths;
  Floats grad;
  std::vector<Floats> operands;
  Floats output = {};
  std::vector<Floats> gradients = {};

  explicit FloatLayer(int gates_) : gates(gates_) {
    Noise noise(5);
    for (int64_t i = 0; i < kSequences; ++i) {
      lengths.push_back(static_cast<int32_t>(i % 3 == 0 ? i % (kSteps + 1) : kSteps));
    }
    grad = noise(kSequences * kSteps * kChannels, 1);
    operands = {noise(kSequences * kSteps * gates * kChannels, 2), noise(kSequences * kChannels, 1),
                noise(kSequences * kChannels, 1), noise(gates * kChannels * kChannels, 0.2F),
                noise(gates == 4 ? 3 * kChannels : kChannels, 0.5F)};
    if (gates != 4) operands[2].clear();
    if (gates == 1) operands[4].clear();
  }

  const Op& op() const { return gates == 1 ? ops::kRnn : gates == 3 ? ops::kGru : ops::kLstm; }

  static Tensor tensor(Floats& data, const Shape& shape) {
    Tensor made;
    made.data = data.data(), made.type = DataType::kFloat, made.shape = shape;
    return made;
  }

  void compute(int threads) {
    const Shape states{kSequences, kChannels}, result{kSequences, kSteps, kChannels};
    const std::vector<Shape> shapes = {Shape{kSequences, kSteps, gates * kChannels}, states, states,
                                       Shape{gates * kChannels, kChannels},
                                       Shape{gates == 4 ? 3 : 1, kChannels}};
    output.assign(grad.size(), 9);
    gradients.clear();
    for (const Floats& each : operands) gradients.emplace_back(each.size());
    std::vector<Tensor> inputs = {tensor(operands[0], shapes[0]), {}}, grad_inputs = {{}, {}};
    inputs[1].data = lengths.data();
    inputs[1].type = DataType::kInt32, inputs[1].shape = Shape{kSequences};
    grad_inputs[0] = tensor(gradients[0], shapes[0]);
    for (size_t i : {1, 2}) {
      if (operands[i].empty()) continue;
      inputs.push_back(tensor(operands[i], states));
      grad_inputs.push_back(tensor(gradients[i], states));
    }
    std::vector<ParameterView> parameters;
    for (size_t i : {3, 4}) {
      if (operands[i].empty()) continue;
      parameters.emplace_back().mantissa = tensor(operands[i], shapes[i]);
      parameters.back().gradient = tensor(gradients[i], shapes[i]);
    }
    const Attributes attributes = *complete({}, op().attributes);
    const OpRows& functions = *op().fp32;
    const OpMemory memory = functions.memory({.attributes = &attributes, .output = result}, {});
    std::vector<std::byte> saved(memory.saved_bytes, std::byte{0xff}),
        scratch(std::max({memory.forward.scratch_bytes, memory.grad_input.scratch_bytes,
                          memory.grad_weights.scratch_bytes}),
                std::byte{0xff});
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    ThreadPool pool(threads);
    const StepScalars scalars;
    OpContext c;
    c.node.attributes = &attributes;
    c.step.scalars = &scalars;
    c.inputs = inputs;
    const Tensor output_view = tensor(output, result);
    c.outputs = {&output_view, 1};
    const Tensor grad_view = tensor(grad, result);
    c.grad_outputs = {&grad_view, 1};
    c.grad_inputs = grad_inputs;
    c.parameters = parameters;
    c.memory.saved = saved.data();
    c.kernel = {&pool, scratch};
    c.kernel.table = &table;
    functions.forward.run(c);
    functions.grad_weights.run(c);
    functions.grad_input.run(c);
  }

  // The result by the definition, with operand `moved` moved along a direction.
  Reals definition(size_t moved = 0, const Floats& direction = {}, double distance = 0) const {
    std::vector<Reals> x;
    for (const Floats& each : operands) x.push_back(doubles(each));
    for (size_t i = 0; i < direction.size(); ++i) x[moved][i] += distance * direction[i];
    std::vector<Reals> parameters = {x[3]};
    if (!x[4].empty()) parameters.push_back(x[4]);
    return recurrent(gates, kSteps, kChannels, x[0], parameters, {lengths.begin(), lengths.end()},
                     x[1], x[2]);
  }
};

TEST(RecurrentFp32, IsItsDefinition) {
  for (const int gates : {1, 3, 4}) {
    FloatLayer layer(gates);
    layer.compute(3);
    const Reals expected = layer.definition();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(layer.output[i], expected[i], 5e-6) << gates << " " << i;
    }
    for (size_t operand = 0; operand < layer.operands.size(); ++operand) {
      const Floats& gradient = layer.gradients[operand];
      if (gradient.empty()) continue;
      constexpr double kDistance = 1e-5;
      const Floats direction = Noise(operand)(std::ssize(gradient), 1);
      const Reals above = layer.definition(operand, direction, kDistance),
                  below = layer.definition(operand, direction, -kDistance);
      double expected_slope = 0, slope = 0, square = 0;
      for (size_t i = 0; i < above.size(); ++i) {
        expected_slope += layer.grad[i] * (above[i] - below[i]) / (2 * kDistance);
      }
      for (size_t i = 0; i < gradient.size(); ++i) {
        slope += double{gradient[i]} * direction[i];
        square += double{gradient[i]} * gradient[i];
      }
      EXPECT_NEAR(slope, expected_slope, 1e-4 * std::sqrt(square)) << gates << " " << operand;
    }
  }
}

TEST(RecurrentFp32, HasTheSameBitsForAnyNumberOfThreads) {
  for (const int gates : {1, 3, 4}) {
    FloatLayer one(gates), three(gates);
    one.compute(1);
    three.compute(3);
    EXPECT_EQ(one.output, three.output);
    EXPECT_EQ(one.gradients, three.gradients);
  }
}

}  // namespace
}  // namespace mantissa::testing
