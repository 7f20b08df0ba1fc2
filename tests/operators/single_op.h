// One operator on operands that a test gives: memory as the plan would provide it, filled with
// garbage before each pass.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/ops.h"
#include "runtime/memory.h"

namespace mantissa::testing {

// Whether the gradient of the input has the mantissas of the output's gradient.
inline bool passes_gradient(const Op& op) {
  const auto emitted = gradient_of(op, op.integer, false).instructions();
  return std::ranges::any_of(emitted, [](const EmittedInstruction& each) {
    const NamedOperands* written = each.find(Role::kGradInput);
    return written != nullptr && written->width == GradientWidth::kPassed;
  });
}

struct Mantissas {
  std::vector<int> values;
  int exponent = 0;
  int bits = 8;
  std::vector<int> rows = {};  // exponents of the rows, if they have their own: at most `exponent`
  bool operator==(const Mantissas&) const = default;
};

class SingleOp {
 public:
  // Shapes are those of one example.
  SingleOp(const Op& op, const Attributes& attributes, std::vector<Shape> inputs, int64_t batch = 1,
           int threads = 1, Isa isa = best_isa())
      : op_(op),
        attributes_(*complete(attributes, op.attributes)),
        pool_(threads),
        table_(kernels::select_kernels(isa)) {
    if (op.parameters != nullptr) {
      for (const Parameter& each : op.parameters(attributes_, inputs)) {
        parameter_shapes_.push_back(each.shape);
      }
    }
    const auto output = output_shape(op, attributes, inputs);
    EXPECT_TRUE(output.ok()) << (output.ok() ? "" : output.error().message);
    output_shape_ = output->with_front(batch);
    for (const Shape& shape : inputs) input_shapes_.push_back(shape.with_front(batch));
    if (op.integer.memory != nullptr) {
      const std::vector<Grid> widest(inputs.size(), Grid{.bits = 16});
      const OpShapes shapes{.attributes = &attributes_,
                            .inputs = input_shapes_,
                            .output = output_shape_,
                            .parameters = parameter_shapes_,
                            .input_grids = widest};
      memory_ = op.integer.memory(shapes, {&table_, threads});
      saved_ = Garbage(memory_.saved_bytes);
    }
    scalars_.seed = 11;
    scalars_.step = 4;
  }

  StepScalars& scalars() { return scalars_; }
  const StepTotals& totals() const { return totals_; }
  int64_t saturated() const { return saturated_; }
  void set_node(int node) { node_ = node; }
  const std::vector<Shape>& parameter_shapes() const { return parameter_shapes_; }
  void set_parameters(std::vector<Mantissas> parameters) { parameters_ = std::move(parameters); }

  // The output, `bits` wide; under kFixed with this exponent.
  Mantissas forward(const std::vector<Mantissas>& inputs, ExponentMode mode = ExponentMode::kExact,
                    int fixed_exponent = 0, int bits = 8) {
    OpContext c = context(inputs, memory_.forward);
    c.mode.exponents = mode;
    histogram_.assign(kHistogramBins, 0);
    Tensor output_view = tensor(output_shape_, bits, fixed_exponent);
    output_view.histogram = histogram_.data();
    c.outputs = {&output_view, 1};
    run(op_.integer.forward, c);
    return read(output_view);
  }
  const std::vector<int64_t>& histogram() const { return histogram_; }

  // The gradients of the inputs, `bits` wide. narrow_gradient starts from `predicted`.
  std::vector<Mantissas> backward(const std::vector<Mantissas>& inputs, const Mantissas& grad,
                                  int bits, int16_t predicted = kUnmeasured) {
    std::deque<int16_t> predictors(2 * input_shapes_.size(), kUnmeasured);
    return backward(inputs, grad, bits, 99, [&](size_t i) {
      predictors[2 * i] = predicted;
      return ExponentPredictor{&predictors[2 * i], &predictors[2 * i + 1]};
    });
  }

  // The same without a predictor, from gradients that had this exponent before.
  std::vector<Mantissas> backward_exactly(const std::vector<Mantissas>& inputs,
                                          const Mantissas& grad, int bits, int exponent) {
    return backward(inputs, grad, bits, exponent, [](size_t) { return ExponentPredictor{}; });
  }

  // The sums of the parameters' gradients, at this exponent. A forward pass comes before it.
  std::vector<std::vector<int64_t>> backward_weights(const std::vector<Mantissas>& inputs,
                                                     const Mantissas& grad, int exponent) {
    OpContext c = context(inputs, memory_.grad_weights);
    const Tensor grad_view = write(grad, output_shape_);
    c.grad_outputs = {&grad_view, 1};
    std::vector<std::vector<int64_t>> sums;
    for (const Shape& shape : parameter_shapes_) sums.emplace_back(shape.count());
    for (size_t i = 0; i < sums.size(); ++i) {
      Tensor& gradient = parameter_views_[i].gradient = tensor(parameter_shapes_[i], 32, exponent);
      gradient.type = DataType::kInt64;
      gradient.data = sums[i].data();
    }
    run(op_.integer.grad_weights, c);
    return sums;
  }

 private:
  // Bytes of no meaning, from a multiple of 64 on.
  class Garbage {
   public:
    explicit Garbage(int64_t bytes = 0)
        : bytes_(static_cast<size_t>(bytes + 64), std::byte{0xA5}) {}
    std::byte* data() {
      return bytes_.data() + (64 - reinterpret_cast<uintptr_t>(bytes_.data()) % 64) % 64;
    }

   private:
    std::vector<std::byte> bytes_;
  };

  static void run(const OpRow& row, OpContext& c) {
    const Prepared prepared = row.prepare != nullptr ? row.prepare(c) : nullptr;
    c.kernel.prepared = prepared.get();
    row.run(c);
  }

  template <typename PredictorOf>
  std::vector<Mantissas> backward(const std::vector<Mantissas>& inputs, const Mantissas& grad,
                                  int bits, int exponent, const PredictorOf& predictor_of) {
    OpContext c = context(inputs, memory_.grad_input);
    const Tensor grad_view = write(grad, output_shape_);
    c.grad_outputs = {&grad_view, 1};
    std::vector<Tensor> grad_inputs;
    for (size_t i = 0; i < input_shapes_.size(); ++i) {
      grad_inputs.push_back(tensor(input_shapes_[i], bits, exponent));
      grad_inputs.back().predictor = predictor_of(i);
    }
    c.grad_inputs = grad_inputs;
    run(op_.integer.grad_input, c);
    std::vector<Mantissas> result;
    for (const Tensor& gradient : grad_inputs) result.push_back(read(gradient));
    return result;
  }

  Tensor tensor(const Shape& shape, int bits, int exponent) {
    Tensor t;
    t.type = bits <= 8 ? DataType::kInt8 : bits <= 16 ? DataType::kInt16 : DataType::kInt32;
    t.bits = bits;
    t.shape = shape;
    // Garbage at first: it shows if an op leaves something unwritten.
    data_.emplace_back(static_cast<size_t>(shape.count() * 4 + 64), std::byte{0xA5});
    t.data = data_.back().data();
    exponents_.push_back(static_cast<int16_t>(exponent));
    t.exponent = &exponents_.back();
    t.saturated = &saturated_;
    return t;
  }

  Tensor write(const Mantissas& from, const Shape& shape) {
    Tensor t = tensor(shape, from.bits, from.exponent);
    EXPECT_EQ(static_cast<int64_t>(from.values.size()), shape.count());
    for (int64_t i = 0; i < shape.count(); ++i) {
      if (t.type == DataType::kInt8) t.as<int8_t>()[i] = static_cast<int8_t>(from.values[i]);
      if (t.type == DataType::kInt16) t.as<int16_t>()[i] = static_cast<int16_t>(from.values[i]);
      if (t.type == DataType::kInt32) t.as<int32_t>()[i] = from.values[i];
    }
    if (!from.rows.empty()) {
      rows_.emplace_back(from.rows.begin(), from.rows.end());
      t.row_exponents = rows_.back().data();
    }
    return t;
  }

  static Mantissas read(const Tensor& t) {
    Mantissas result{{}, *t.exponent, t.bits};
    for (int64_t i = 0; i < t.count(); ++i) {
      result.values.push_back(t.type == DataType::kInt8    ? t.as<int8_t>()[i]
                              : t.type == DataType::kInt16 ? t.as<int16_t>()[i]
                                                           : t.as<int32_t>()[i]);
    }
    return result;
  }

  OpContext context(const std::vector<Mantissas>& inputs, const RowMemory& memory) {
    data_.clear();
    exponents_.clear();
    rows_.clear();
    totals_ = {};
    saturated_ = 0;
    inputs_.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs_.push_back(write(inputs[i], input_shapes_[i]));
    }
    OpContext c;
    c.node.attributes = &attributes_;
    c.inputs = inputs_;
    c.node.index = node_;
    parameter_views_.clear();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameter_views_.emplace_back().mantissa = write(parameters_[i], parameter_shapes_[i]);
    }
    c.parameters = parameter_views_;
    workspace_ = Garbage(memory.workspace_bytes);
    c.memory.workspace = workspace_.data();
    c.memory.saved = memory_.saved_bytes > 0 ? saved_.data() : nullptr;
    c.kernel.pool = &pool_;
    c.kernel.table = &table_;
    c.step.scalars = &scalars_;
    c.step.totals = &totals_;
    return c;
  }

  const Op& op_;
  Attributes attributes_;
  ThreadPool pool_;
  kernels::KernelTable table_;
  std::vector<Shape> input_shapes_;
  Shape output_shape_;
  OpMemory memory_;
  StepScalars scalars_;
  StepTotals totals_;
  int64_t saturated_ = 0;
  int node_ = 5;
  std::vector<int64_t> histogram_;
  std::deque<std::vector<std::byte>> data_;
  std::deque<int16_t> exponents_;
  std::deque<std::vector<int16_t>> rows_;
  std::vector<Tensor> inputs_;
  std::vector<Shape> parameter_shapes_;
  std::vector<Mantissas> parameters_;
  std::vector<ParameterView> parameter_views_;
  Garbage saved_, workspace_;
};

// Keyed mantissas of `bits` bits with the extremes among them.
inline Mantissas some_mantissas(int64_t count, int bits, int exponent, uint64_t seed) {
  Mantissas result{{}, exponent, bits};
  const int64_t limit = mantissa_limit(bits);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = random_bits(seed, RandomStream::kRound, 7, static_cast<uint64_t>(i));
    const int64_t extremes[] = {-limit, limit, 0, 1, -1};
    const auto any = static_cast<int64_t>(random % static_cast<uint64_t>(2 * limit + 1)) - limit;
    result.values.push_back(static_cast<int>(random % 5 == 0 ? extremes[random / 5 % 5] : any));
  }
  return result;
}

// Exact wide values, narrowed by the definitions (METHODS section 0) in 128 bits.
inline Mantissas narrowed(const std::vector<__int128>& wide, int wide_exponent, int bits,
                          int64_t* saturated = nullptr) {
  __int128 maximum = 0;
  for (const __int128 value : wide) maximum = std::max(maximum, value < 0 ? -value : value);
  int shift = 0;
  while (maximum > 0 && (maximum - 1) >> (bits - 1 + shift) != 0) ++shift;
  Mantissas result{{}, maximum == 0 ? zero_exponent(bits) : wide_exponent + shift, bits};
  const __int128 limit = mantissa_limit(bits), unit = __int128{1} << shift;
  for (const __int128 value : wide) {
    __int128 floor = value >> shift;
    const __int128 twice_rest = 2 * (value - floor * unit);
    if (twice_rest > unit || (twice_rest == unit && floor % 2 != 0)) ++floor;
    const __int128 narrow = floor > limit ? limit : floor < -limit ? -limit : floor;
    if (saturated != nullptr) *saturated += narrow != floor;
    result.values.push_back(static_cast<int>(narrow));
  }
  return result;
}

}  // namespace mantissa::testing
