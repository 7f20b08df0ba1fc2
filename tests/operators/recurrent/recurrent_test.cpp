// Recurrent layers over sequences of different lengths, from states of their own. Checks their
// definition, in integers and in fp32, and that padding changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/operators/definitions.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kTimes = 6, kWidth = 5, kSamples = 4;
const std::vector<int64_t> kLengths = {6, 1, 0, 4};

struct Layer {
  const Op* op;
  int gates;
  Attributes attributes;
  const char* name;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> list = {{&ops::kRnn, 1, {}, "rnn"},
                                          {&ops::kLstm, 4, {}, "lstm"},
                                          {&ops::kLstm, 4, {{"peepholes", 1}}, "peepholes"},
                                          {&ops::kGru, 3, {}, "gru"}};
  return list;
}

// Calls check(layer, has_start) for all layers, with and without a start.
template <typename Check>
void for_layers(const Check& check) {
  for (const Layer& layer : layers()) {
    for (const bool has_start : {false, true}) {
      SCOPED_TRACE(std::string(layer.name) + (has_start ? " with a start" : ""));
      check(layer, has_start);
    }
  }
}

int64_t row_size(const Layer& layer) { return layer.gates * kWidth; }

// With `has_start`, h and an LSTM's cell at the start are inputs too.
std::vector<Shape> input_shapes(const Layer& layer, bool has_start, int64_t steps = kTimes) {
  std::vector<Shape> shapes = {Shape{steps, row_size(layer)}, Shape{}};
  if (has_start) shapes.resize(layer.gates == 4 ? 4 : 3, Shape{kWidth});
  return shapes;
}

Mantissas lengths_of(const std::vector<int64_t>& lengths) {
  return {std::vector<int>(lengths.begin(), lengths.end()), 0, 32};
}

Reals reals_of(const Mantissas& block) {
  Reals values;
  for (const int mantissa : block.values) values.push_back(std::ldexp(mantissa, block.exponent));
  return values;
}

double largest_of(const Reals& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// Numbers of all operands: the input up to 2, weights and h up to 1, cells up to 4, gradients up to
// 2^-5.
struct Operands {
  std::vector<Mantissas> inputs, parameters;
  Mantissas grad;

  Operands(const Layer& layer, bool has_start, const std::vector<Shape>& parameter_shapes)
      : inputs({some_mantissas(kSamples * kTimes * row_size(layer), 16, -14, 1),
                lengths_of(kLengths)}),
        grad(some_mantissas(kSamples * kTimes * kWidth, 16, -20, 2)) {
    if (has_start) {
      inputs.push_back(some_mantissas(kSamples * kWidth, 8, -7, 7));
      if (layer.gates == 4) inputs.push_back(some_mantissas(kSamples * kWidth, 12, -9, 8));
    }
    for (size_t i = 0; i < parameter_shapes.size(); ++i) {
      const int bits = i == 0 ? 8 : 16;
      parameters.push_back(some_mantissas(parameter_shapes[i].count(), bits, 1 - bits, 3 + i));
    }
  }
};

// Calls change(i) for all numbers of the padding, in rows of `width` numbers.
template <typename Change>
void for_padding(int64_t width, const Change& change) {
  for (int64_t row = 0; row < kSamples * kTimes; ++row) {
    if (row % kTimes < kLengths[static_cast<size_t>(row / kTimes)]) continue;
    for (int64_t i = 0; i < width; ++i) change(static_cast<size_t>(row * width + i));
  }
}

// A layer's result and gradients by the definition, gradients by central differences.
struct Definition {
  Reals output;
  std::vector<Reals> grad_inputs;  // of lengths: empty
  std::vector<Reals> grad_parameters;

  Definition(const Layer& layer, std::vector<Reals> x, std::vector<Reals> p, const Reals& grad) {
    x.resize(4);
    const auto run = [&] {
      return recurrent(layer.gates, kTimes, kWidth, x[0], p, kLengths, x[2], x[3]);
    };
    const auto slopes = [&](Reals& of) {
      Reals found;
      for (double& number : of) {
        constexpr double kStep = 1e-5;
        const double kept = number;
        number = kept + kStep;
        const Reals above = run();
        number = kept - kStep;
        const Reals below = run();
        number = kept;
        double slope = 0;
        for (size_t i = 0; i < grad.size(); ++i) slope += grad[i] * (above[i] - below[i]);
        found.push_back(slope / (2 * kStep));
      }
      return found;
    };
    output = run();
    for (size_t i : {0, 2, 3}) {
      grad_inputs.resize(i + 1);
      grad_inputs[i] = slopes(x[i]);
    }
    for (Reals& each : p) grad_parameters.push_back(slopes(each));
  }
};

void expect_near(const Reals& found, const Reals& expected, double part, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  const double most = largest_of(expected);
  ASSERT_GT(most, 0) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], part * most) << what << " " << i;
  }
}

Definition definition_of(const Layer& layer, const Operands& operands) {
  std::vector<Reals> x, p;
  for (const Mantissas& each : operands.inputs) x.push_back(reals_of(each));
  for (const Mantissas& each : operands.parameters) p.push_back(reals_of(each));
  return Definition(layer, x, p, reals_of(operands.grad));
}

// Everything that a layer computes.
struct Computed {
  Mantissas output;
  std::vector<Mantissas> grad_inputs;  // without those of lengths
  std::vector<std::vector<int64_t>> sums;
  bool operator==(const Computed&) const = default;
};

constexpr int kSumExponent = -40;

Computed compute(SingleOp& op, const Operands& operands) {
  op.set_parameters(operands.parameters);
  Computed all;
  all.output = op.forward(operands.inputs, ExponentMode::kExact, 0, 16);
  all.grad_inputs = op.backward(operands.inputs, operands.grad, 16);
  all.grad_inputs[1] = {};
  all.sums = op.backward_weights(operands.inputs, operands.grad, kSumExponent);
  return all;
}

TEST(Recurrent, WithLengthsIsItsDefinition) {
  for_layers([](const Layer& layer, bool has_start) {
    SingleOp op(*layer.op, layer.attributes, input_shapes(layer, has_start), kSamples, 2);
    const Operands operands(layer, has_start, op.parameter_shapes());
    const Computed found = compute(op, operands);
    const Definition expected = definition_of(layer, operands);
    expect_near(reals_of(found.output), expected.output, 1e-3, "output");
    for (size_t i = 0; i < found.grad_inputs.size(); ++i) {
      if (i == 1) continue;
      expect_near(reals_of(found.grad_inputs[i]), expected.grad_inputs[i], 5e-3,
                  "input " + std::to_string(i));
    }
    for (size_t p = 0; p < found.sums.size(); ++p) {
      Reals sums;
      for (const int64_t sum : found.sums[p]) {
        sums.push_back(std::ldexp(static_cast<double>(sum), kSumExponent));
      }
      expect_near(sums, expected.grad_parameters[p], 2e-2, "parameter " + std::to_string(p));
    }
  });
}

// The end of a sequence is repeated, and nothing flows back into padding.
TEST(Recurrent, CarriesTheStateThroughPadding) {
  for_layers([](const Layer& layer, bool has_start) {
    SingleOp op(*layer.op, layer.attributes, input_shapes(layer, has_start), kSamples);
    const Operands operands(layer, has_start, op.parameter_shapes());
    const Computed found = compute(op, operands);
    for_padding(kWidth, [&](size_t i) {
      const auto channel = static_cast<int64_t>(i) % kWidth;
      const int64_t sequence = static_cast<int64_t>(i) / (kTimes * kWidth);
      const int64_t length = kLengths[static_cast<size_t>(sequence)];
      const int64_t last = ((sequence * kTimes) + length - 1) * kWidth + channel;
      const double expected =
          length > 0 ? reals_of(found.output)[static_cast<size_t>(last)]
          : has_start
              ? reals_of(operands.inputs[2])[static_cast<size_t>(sequence * kWidth + channel)]
              : 0;
      EXPECT_NEAR(reals_of(found.output)[i], expected, length > 0 ? 0 : 1e-4);
    });
    for_padding(row_size(layer), [&](size_t i) { EXPECT_EQ(found.grad_inputs[0].values[i], 0); });
  });
}

TEST(Recurrent, DoesNotSeeThePaddingsContent) {
  for_layers([](const Layer& layer, bool has_start) {
    SingleOp op(*layer.op, layer.attributes, input_shapes(layer, has_start), kSamples);
    Operands operands(layer, has_start, op.parameter_shapes());
    const Computed before = compute(op, operands);
    for_padding(row_size(layer), [&](size_t i) { operands.inputs[0].values[i] = 32767; });
    EXPECT_EQ(compute(op, operands), before);
    operands.inputs[0].values[0] ^= 0x4000;
    EXPECT_NE(compute(op, operands), before);
  });
}

// As many steps as the sequences have, or more that are padding: the same bits and sums.
TEST(Recurrent, DoesNotSeeHowMuchPaddingThereIs) {
  constexpr int64_t kLonger = kTimes + 3;
  for_layers([](const Layer& layer, bool has_start) {
    SingleOp op(*layer.op, layer.attributes, input_shapes(layer, has_start), kSamples);
    SingleOp longer(*layer.op, layer.attributes, input_shapes(layer, has_start, kLonger), kSamples);
    Operands operands(layer, has_start, op.parameter_shapes());
    // A loss masks padding, so that no gradient comes from there.
    for_padding(kWidth, [&](size_t i) { operands.grad.values[i] = 0; });
    const auto padded = [](const Mantissas& from, int64_t width, int with) {
      Mantissas to = {{}, from.exponent, from.bits};
      for (int64_t i = 0; i < kSamples; ++i) {
        const auto begin = from.values.begin() + i * kTimes * width;
        to.values.insert(to.values.end(), begin, begin + kTimes * width);
        to.values.insert(to.values.end(), static_cast<size_t>((kLonger - kTimes) * width), with);
      }
      return to;
    };
    const Computed before = compute(op, operands);
    const Mantissas no_gradient = padded(before.grad_inputs[0], row_size(layer), 0);
    operands.inputs[0] = padded(operands.inputs[0], row_size(layer), -999);
    operands.grad = padded(operands.grad, kWidth, 0);
    const Computed after = compute(longer, operands);
    EXPECT_EQ(after.sums, before.sums);
    EXPECT_EQ(after.grad_inputs[0], no_gradient);
    for (size_t i = 2; i < after.grad_inputs.size(); ++i) {
      EXPECT_EQ(after.grad_inputs[i], before.grad_inputs[i]);
    }
    EXPECT_EQ(after.output.exponent, before.output.exponent);
    for (int64_t row = 0; row < kSamples * kTimes; ++row) {
      const int64_t there = row / kTimes * kLonger + row % kTimes;
      for (int64_t j = 0; j < kWidth; ++j) {
        ASSERT_EQ(after.output.values[static_cast<size_t>(there * kWidth + j)],
                  before.output.values[static_cast<size_t>(row * kWidth + j)]);
      }
    }
  });
}

TEST(Recurrent, WithLengthsHasTheSameBitsOverThreadsAndInstructionSets) {
  for_layers([](const Layer& layer, bool has_start) {
    SingleOp scalar(*layer.op, layer.attributes, input_shapes(layer, has_start), kSamples, 1,
                    Isa::kScalar);
    const Operands operands(layer, has_start, scalar.parameter_shapes());
    const Computed expected = compute(scalar, operands);
    for (const int threads : {1, 3}) {
      SingleOp op(*layer.op, layer.attributes, input_shapes(layer, has_start), kSamples, threads);
      EXPECT_EQ(compute(op, operands), expected) << threads;
    }
  });
}

// A tensor of fp32 over `data`.
Tensor float_tensor(std::vector<float>& data, const Shape& shape) {
  Tensor tensor;
  tensor.data = data.data();
  tensor.type = DataType::kFloat;
  tensor.shape = shape;
  return tensor;
}

Reals reals_of(const std::vector<float>& from) { return {from.begin(), from.end()}; }

std::vector<float> floats(const Mantissas& from) {
  const Reals values = reals_of(from);
  return {values.begin(), values.end()};
}

TEST(Recurrent, WithLengthsIsItsDefinitionInFp32) {
  for_layers([](const Layer& layer, bool has_start) {
    const std::vector<Shape> shapes = input_shapes(layer, has_start);
    const Attributes attributes = *complete(layer.attributes, layer.op->attributes);
    const Shape output_of_batch{kSamples, kTimes, kWidth};
    std::vector<Shape> parameter_shapes;
    for (const Parameter& each : layer.op->parameters(attributes, shapes)) {
      parameter_shapes.push_back(each.shape);
    }
    Operands operands(layer, has_start, parameter_shapes);
    std::vector<float> grad = floats(operands.grad), out(grad.size());
    std::vector<std::vector<float>> x, grad_x;
    std::vector<Shape> shapes_of_batch;
    std::vector<Tensor> inputs, grad_inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      x.push_back(floats(operands.inputs[i]));
      grad_x.emplace_back(x.back().size(), 7.0F);
      shapes_of_batch.push_back(shapes[i].with_front(kSamples));
      inputs.push_back(float_tensor(x.back(), shapes_of_batch.back()));
      grad_inputs.push_back(float_tensor(grad_x.back(), shapes_of_batch.back()));
    }
    std::vector<int32_t> lengths(kLengths.begin(), kLengths.end());
    inputs[1].data = lengths.data();
    inputs[1].type = DataType::kInt32;
    grad_inputs[1] = {};
    std::vector<std::vector<float>> p, grad_p;
    for (const Mantissas& each : operands.parameters) {
      p.push_back(floats(each));
      grad_p.emplace_back(p.back().size());
    }
    std::vector<ParameterView> views;
    for (size_t i = 0; i < p.size(); ++i) {
      views.emplace_back().mantissa = float_tensor(p[i], parameter_shapes[i]);
      views.back().gradient = float_tensor(grad_p[i], parameter_shapes[i]);
    }
    const OpRows& functions = *layer.op->fp32;
    const OpMemory memory = functions.memory(
        {.attributes = &attributes, .inputs = shapes_of_batch, .output = output_of_batch}, {});
    std::vector<float> saved(static_cast<size_t>(memory.saved_bytes) / sizeof(float), -99.0F);
    const int64_t scratch_bytes =
        std::max({memory.forward.scratch_bytes, memory.grad_weights.scratch_bytes,
                  memory.grad_input.scratch_bytes});
    std::vector<std::byte> scratch(static_cast<size_t>(scratch_bytes), std::byte{0xff});
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    ThreadPool pool(2);
    const StepScalars scalars;
    OpContext c;
    c.node.attributes = &attributes;
    c.step.scalars = &scalars;
    c.inputs = inputs;
    const Tensor output_view = float_tensor(out, output_of_batch);
    c.outputs = {&output_view, 1};
    const Tensor grad_view = float_tensor(grad, output_of_batch);
    c.grad_outputs = {&grad_view, 1};
    c.grad_inputs = grad_inputs;
    c.parameters = views;
    c.memory.saved = reinterpret_cast<std::byte*>(saved.data());
    c.kernel = {&pool, scratch};
    c.kernel.table = &table;
    functions.forward.run(c);
    functions.grad_weights.run(c);
    functions.grad_input.run(c);
    const Definition expected = definition_of(layer, operands);
    expect_near(reals_of(out), expected.output, 1e-6, "output");
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (i != 1) expect_near(reals_of(grad_x[i]), expected.grad_inputs[i], 1e-6, "input");
    }
    for (size_t i = 0; i < p.size(); ++i) {
      expect_near(reals_of(grad_p[i]), expected.grad_parameters[i], 1e-6, "parameter");
    }
  });
}

// A sequence in two halves, the second from the last h of the first, has the bits of the whole.
TEST(Recurrent, GoesOnFromAState) {
  constexpr int64_t kHalf = kTimes / 2;
  const Mantissas all_steps = lengths_of(std::vector<int64_t>(kSamples, kTimes));
  for_layers([&](const Layer& layer, bool has_start) {
    if (!has_start || layer.gates == 4) return;  // an LSTM's cell is no result
    SingleOp whole(*layer.op, layer.attributes, input_shapes(layer, true), kSamples);
    SingleOp half(*layer.op, layer.attributes, input_shapes(layer, true, kHalf), kSamples);
    Operands operands(layer, true, whole.parameter_shapes());
    operands.inputs[1] = all_steps;
    const auto run = [&](SingleOp& op, const std::vector<Mantissas>& inputs) {
      op.set_parameters(operands.parameters);
      return op.forward(inputs, ExponentMode::kFixed, -15, 16);
    };
    // The steps from `first` on, `count` of each sequence.
    const auto part = [](const Mantissas& from, int64_t width, int64_t first, int64_t count) {
      Mantissas to = {{}, from.exponent, from.bits};
      for (int64_t i = 0; i < kSamples; ++i) {
        const int64_t steps = std::ssize(from.values) / kSamples / width;
        const auto begin = from.values.begin() + (i * steps + first) * width;
        to.values.insert(to.values.end(), begin, begin + count * width);
      }
      return to;
    };
    const int64_t width = row_size(layer);
    std::vector<Mantissas> first = operands.inputs, second = operands.inputs;
    first[0] = part(operands.inputs[0], width, 0, kHalf);
    second[0] = part(operands.inputs[0], width, kHalf, kHalf);
    const Mantissas of_whole = run(whole, operands.inputs), of_first = run(half, first);
    second[2] = part(of_first, kWidth, kHalf - 1, 1);
    EXPECT_EQ(of_first, part(of_whole, kWidth, 0, kHalf));
    EXPECT_EQ(run(half, second), part(of_whole, kWidth, kHalf, kHalf));
  });
}

TEST(Recurrent, RefusesInputsThatDoNotFit) {
  for (const Layer& layer : layers()) {
    const auto refused = [&](const std::vector<Shape>& shapes) {
      const auto shape = output_shape(*layer.op, layer.attributes, shapes);
      return shape.ok() ? std::string() : shape.error().message;
    };
    const Shape gates{kTimes, row_size(layer)};
    EXPECT_EQ(refused({gates, Shape{}}), "");
    EXPECT_NE(refused({gates, Shape{kTimes}}).find("one length"), std::string::npos);
    EXPECT_NE(refused({gates.with_front(2), Shape{}}).find("one length"), std::string::npos);
    const bool has_cell = layer.gates == 4;
    const std::vector<Shape> only_h = {gates, Shape{}, Shape{kWidth}};
    EXPECT_EQ(refused(only_h).find("and the cell") != std::string::npos, has_cell);
    EXPECT_EQ(refused(only_h).empty(), !has_cell);
    std::vector<Shape> wrong = input_shapes(layer, true);
    wrong.back() = Shape{kWidth + 1};
    EXPECT_NE(refused(wrong).find("a state of [5] at the start, got [6]"), std::string::npos);
    wrong.resize(5, Shape{kWidth});
    EXPECT_NE(refused(wrong).find("perhaps lengths"), std::string::npos);
  }
}

}  // namespace
}  // namespace mantissa::testing
