// Grids whose range is trained, and weights on grids that stay: `quantise` against its definition,
// and what training does to such parameters.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "tests/harness.h"
#include "tests/networks.h"
#include "tests/single_op.h"

namespace mantissa::testing {
namespace {

struct Grid4 {
  int bits = 4;
  bool is_signed = false;
  int exponent = -4;
  int16_t range = 1 << 14;  // mantissa
  int range_exponent = -14;

  int64_t high() const { return is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1; }
  int64_t low() const { return is_signed ? -high() : 0; }
  long double value() const { return std::ldexp(static_cast<long double>(range), range_exponent); }
  // x in steps.
  long double steps(long double x) const { return x * high() / value(); }
};

// The operator on one tensor, with memory of its own.
class QuantiseOp {
 public:
  QuantiseOp(const Grid4& grid, const Mantissas& input, Isa isa, int threads)
      : grid_(grid),
        attributes_({{"bits", int64_t{grid.bits}},
                     {"exponent", int64_t{grid.exponent}},
                     {"learns", "lsq"},
                     {"signed", int64_t{grid.is_signed ? 1 : 0}}}),
        pool_(threads),
        table_(kernels::select_kernels(isa)),
        input_(input) {
    parameter_.mantissa = tensor(&range_, DataType::kInt16, {1}, &range_exponent_, 16);
    parameter_.gradient = tensor(&gradient_, DataType::kInt64, {1}, &gradient_exponent_, 64);
    range_ = grid.range;
    range_exponent_ = static_cast<int16_t>(grid.range_exponent);
  }

  Mantissas forward() {
    std::vector<int8_t> out(input_.values.size());
    int16_t exponent = 99;
    OpContext c = context();
    c.output = tensor(out.data(), DataType::kInt8, shape(), &exponent, grid_.bits + 1);
    ops::kQuantise.forward(c);
    return {{out.begin(), out.end()}, exponent, 8};
  }

  Mantissas backward_input(const Mantissas& gradient) {
    std::vector<int16_t> out(input_.values.size());
    int16_t exponent = 0, measured = kUnmeasured;
    int16_t predicted = kUnmeasured;
    OpContext c = context();
    load(gradient, c.grad_output);
    Tensor grad_in = tensor(out.data(), DataType::kInt16, shape(), &exponent, 16);
    grad_in.predictor = {&predicted, &measured};
    c.grad_inputs = {&grad_in, 1};
    ops::kQuantise.backward_input(c);
    return {{out.begin(), out.end()}, exponent, 16};
  }

  // The gradient of the range.
  long double backward_weights(const Mantissas& gradient) {
    OpContext c = context();
    load(gradient, c.grad_output);
    gradient_ = 0;
    ops::kQuantise.backward_weights(c);
    return std::ldexp(static_cast<long double>(gradient_), gradient_exponent_);
  }

 private:
  Shape shape() const { return {1, static_cast<int64_t>(input_.values.size())}; }

  Tensor tensor(void* data, DataType type, const Shape& shape, int16_t* exponent, int bits) {
    Tensor t;
    t.data = data;
    t.type = type;
    t.shape = shape;
    t.exponent = exponent;
    t.bits = bits;
    t.saturated = &saturated_;
    return t;
  }

  void load(const Mantissas& gradient, Tensor& to) {
    gradients_.assign(gradient.values.begin(), gradient.values.end());
    grad_exponent_ = static_cast<int16_t>(gradient.exponent);
    to = tensor(gradients_.data(), DataType::kInt16, shape(), &grad_exponent_, 16);
  }

  OpContext context() {
    OpContext c;
    c.attributes = &attributes_;
    bytes_.assign(input_.values.begin(), input_.values.end());
    words_.assign(input_.values.begin(), input_.values.end());
    input_exponent_ = static_cast<int16_t>(input_.exponent);
    const bool is_byte = input_.bits <= 8;
    void* const data = is_byte ? static_cast<void*>(bytes_.data()) : words_.data();
    inputs_ = {tensor(data, is_byte ? DataType::kInt8 : DataType::kInt16, shape(), &input_exponent_,
                      input_.bits)};
    c.inputs = inputs_;
    c.parameters = {&parameter_, 1};
    c.kernel.pool = &pool_;
    c.kernels = &table_;
    c.totals = &totals_;
    return c;
  }

  Grid4 grid_;
  Attributes attributes_;
  ThreadPool pool_;
  kernels::KernelTable table_;
  Mantissas input_;
  ParameterView parameter_;
  int16_t range_ = 0, range_exponent_ = 0, gradient_exponent_ = -40, input_exponent_ = 0;
  int16_t grad_exponent_ = 0;
  int64_t gradient_ = 0, saturated_ = 0;
  std::vector<int8_t> bytes_;
  std::vector<int16_t> words_, gradients_;
  std::vector<Tensor> inputs_;
  StepTotals totals_;
};

Grid4 drawn_grid() {
  Grid4 grid;
  grid.is_signed = *rc::gen::arbitrary<bool>();
  grid.bits = *rc::gen::inRange(grid.is_signed ? 2 : 1, 8);
  grid.exponent = *rc::gen::inRange(-8, 4);
  grid.range = static_cast<int16_t>(*rc::gen::inRange(1, 32768));
  grid.range_exponent = *rc::gen::inRange(-16, -10);
  return grid;
}

TEST(Quantise, IsItsDefinition) {
  rc::check([] {
    const Grid4 grid = drawn_grid();
    const int bits = *rc::gen::element(8, 12, 16);
    const Mantissas input = some_mantissas(300, bits, *rc::gen::inRange(-12, 1), 5);
    QuantiseOp op(grid, input, *rc::gen::element(Isa::kScalar, best_isa()),
                  *rc::gen::inRange(1, 4));
    const Mantissas found = op.forward();
    RC_ASSERT(found.exponent == grid.exponent);
    for (size_t i = 0; i < input.values.size(); ++i) {
      const long double x = std::ldexp(static_cast<long double>(input.values[i]), input.exponent);
      const long double nearest = std::nearbyint(grid.steps(x));
      const auto expected = std::clamp<long double>(nearest, grid.low(), grid.high());
      RC_ASSERT(found.values[i] == static_cast<int>(expected));
    }
  });
}

TEST(Quantise, GradientsPassWithinTheRange) {
  rc::check([] {
    const Grid4 grid = drawn_grid();
    const int bits = *rc::gen::element(8, 12);
    const Mantissas input = some_mantissas(500, bits, *rc::gen::inRange(-12, 1), 6);
    const Mantissas gradient = some_mantissas(500, 16, -20, 7);
    QuantiseOp op(grid, input, best_isa(), 2);
    const Mantissas found = op.backward_input(gradient);
    const long double slope =
        std::ldexp(static_cast<long double>(grid.high()), grid.exponent) / grid.value();
    const long double unit = std::ldexp(1.0L, found.exponent);
    for (size_t i = 0; i < input.values.size(); ++i) {
      const long double x = std::ldexp(static_cast<long double>(input.values[i]), input.exponent);
      const bool within = grid.steps(x) >= grid.low() && grid.steps(x) <= grid.high();
      const long double g = std::ldexp(static_cast<long double>(gradient.values[i]), -20);
      const long double expected = within ? g * slope : 0;
      RC_ASSERT(std::abs(found.values[i] * unit - expected) <=
                unit * 0.51L + std::abs(expected) * 1e-8L);
    }
  });
}

// The derivative of range / N u by range, where u follows x N / range but is not differentiated
// (LSQ): u / N beyond the range, else (u - v) / N.
TEST(Quantise, TheGradientOfTheRange) {
  rc::check([] {
    const Grid4 grid = drawn_grid();
    const int bits = *rc::gen::element(8, 12);
    const auto count = *rc::gen::inRange(1, 9000);
    const Mantissas input = some_mantissas(count, bits, *rc::gen::inRange(-12, 1), 8);
    const Mantissas gradient = some_mantissas(count, 16, -20, 9);
    const long double found = QuantiseOp(grid, input, best_isa(), 2).backward_weights(gradient);
    RC_ASSERT(found == QuantiseOp(grid, input, Isa::kScalar, 1).backward_weights(gradient));
    const long double inverse_ratio =
        std::ldexp(static_cast<long double>(grid.high()), grid.exponent) / grid.value();
    long double expected = 0, magnitudes = 0;
    for (size_t i = 0; i < input.values.size(); ++i) {
      const long double x = std::ldexp(static_cast<long double>(input.values[i]), input.exponent);
      const long double v = grid.steps(x);
      const long double u = std::clamp<long double>(std::nearbyint(v), grid.low(), grid.high());
      const bool within = v >= grid.low() && v <= grid.high();
      const long double g = std::ldexp(static_cast<long double>(gradient.values[i]), -20);
      expected += g * inverse_ratio * (within ? u - v : u) / grid.high();
      magnitudes += std::abs(g) * inverse_ratio / grid.high();
    }
    // Factors have 7 bits: N is between 64 and 127 of their units.
    RC_ASSERT(std::abs(found - expected) <= magnitudes * grid.high() / 127 + 1e-9L);
  });
}

// Training with a rate that is much too high: exponents stay, and weights at the ends.
TEST(FixedGrids, UpdatesClip) {
  for (const char* format : {"bfp8", "bfp:acc=0", "dfp8", "bfp:block=channel"}) {
    SCOPED_TRACE(format);
    Harness harness(
        {.format = format, .batch_size = 16, .micro_batch_size = 16, .learning_rate = 4},
        with_quantised_layers());
    harness.train(12);
    const Graph& graph = harness.graph();
    int fixed = 0;
    int64_t at_the_ends = 0;
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      const Parameter& parameter = graph.parameters[i];
      if (parameter.grid_bits == 0) continue;
      ++fixed;
      const ParameterState& tensors = harness.state().layout().parameters[i];
      EXPECT_EQ(*harness.state().data<int16_t>(tensors.exponent), parameter.grid_exponent);
      EXPECT_EQ(harness.state().layout().tensors[tensors.exponent].shape.count(), 1);
      const auto* weights = harness.state().data<int8_t>(tensors.mantissa);
      const int64_t limit = mantissa_limit(parameter.grid_bits);
      for (int64_t w = 0; w < parameter.shape.count(); ++w) {
        ASSERT_LE(std::abs(weights[w]), limit);
        at_the_ends += std::abs(weights[w]) == limit;
      }
    }
    EXPECT_EQ(fixed, 2);
    EXPECT_GT(at_the_ends, 50);
  }
}

}  // namespace
}  // namespace mantissa::testing
