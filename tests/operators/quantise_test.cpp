// Grids whose range is trained: `quantise` against its definition, and the steps of its parameters.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cmath>
#include <string>

#include "quantise/starts.h"
#include "tests/harness.h"
#include "tests/networks.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

struct Grid4 {
  int bits = 4;
  bool is_signed = false;
  int exponent = -4;
  int16_t range = 1 << 14;  // mantissa
  int range_exponent = -14;

  std::string learns = "lsq";
  bool has_offset = false;
  int16_t offset = 0;  // mantissa
  int offset_exponent = -14;

  int64_t levels() const { return is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1; }
  int64_t low() const {
    if (is_signed) return -levels();
    if (!has_offset) return 0;
    const long double x = std::ldexp(static_cast<long double>(offset), offset_exponent);
    return static_cast<int64_t>(std::clamp<long double>(std::nearbyint(steps(x)), -levels(), 0));
  }
  int64_t high() const { return is_signed ? levels() : low() + levels(); }
  bool is_below(long double x) const {
    return learns == "half-wave" ? steps(x) <= low() : steps(x) < low();
  }
  bool is_above(long double x) const {
    return learns == "pact" ? steps(x) >= high() : steps(x) > high();
  }
  long double value() const { return std::ldexp(static_cast<long double>(range), range_exponent); }
  // x in steps.
  long double steps(long double x) const { return x * levels() / value(); }
};

Attributes attributes_of(const Grid4& grid) {
  return *complete({{"bits", int64_t{grid.bits}},
                    {"exponent", int64_t{grid.exponent}},
                    {"learns", grid.learns},
                    {"offset", int64_t{grid.has_offset ? 1 : 0}},
                    {"signed", int64_t{grid.is_signed ? 1 : 0}}},
                   ops::kQuantise.attributes);
}

// The operator on one tensor, with memory of its own.
class QuantiseOp {
 public:
  QuantiseOp(const Grid4& grid, const Mantissas& input, Isa isa, int threads)
      : grid_(grid),
        attributes_(attributes_of(grid)),
        pool_(threads),
        table_(kernels::select_kernels(isa)),
        input_(input) {
    mantissas_ = {grid.range, grid.offset};
    exponents_ = {static_cast<int16_t>(grid.range_exponent),
                  static_cast<int16_t>(grid.offset_exponent)};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].mantissa = tensor(&mantissas_[i], DataType::kInt16, {1}, &exponents_[i], 16);
      parameters_[i].gradient =
          tensor(&gradients_of_[i], DataType::kInt64, {1}, &gradient_exponent_, 64);
    }
  }

  Mantissas forward() {
    std::vector<int8_t> out(input_.values.size());
    int16_t exponent = 99;
    OpContext c = context();
    const Tensor output_view =
        tensor(out.data(), DataType::kInt8, shape(), &exponent, grid_.bits + 1);
    c.outputs = {&output_view, 1};
    ops::kQuantise.integer.forward.run(c);
    return {{out.begin(), out.end()}, exponent, 8};
  }

  Mantissas backward_input(const Mantissas& gradient) {
    std::vector<int16_t> out(input_.values.size());
    int16_t exponent = 0, measured = kUnmeasured;
    int16_t predicted = kUnmeasured;
    OpContext c = context();
    const Tensor grad_view = load(gradient);
    c.grad_outputs = {&grad_view, 1};
    Tensor grad_in = tensor(out.data(), DataType::kInt16, shape(), &exponent, 16);
    grad_in.predictor = {&predicted, &measured};
    c.grad_inputs = {&grad_in, 1};
    ops::kQuantise.integer.grad_input.run(c);
    return {{out.begin(), out.end()}, exponent, 16};
  }

  // The gradients of the range and of the offset.
  std::array<long double, 2> backward_weights(const Mantissas& gradient) {
    OpContext c = context();
    const Tensor grad_view = load(gradient);
    c.grad_outputs = {&grad_view, 1};
    gradients_of_ = {};
    ops::kQuantise.integer.grad_weights.run(c);
    const auto number = [&](int i) {
      return std::ldexp(static_cast<long double>(gradients_of_[i]), gradient_exponent_);
    };
    return {number(0), number(1)};
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

  Tensor load(const Mantissas& gradient) {
    gradients_.assign(gradient.values.begin(), gradient.values.end());
    grad_exponent_ = static_cast<int16_t>(gradient.exponent);
    return tensor(gradients_.data(), DataType::kInt16, shape(), &grad_exponent_, 16);
  }

  OpContext context() {
    OpContext c;
    c.node.attributes = &attributes_;
    bytes_.assign(input_.values.begin(), input_.values.end());
    words_.assign(input_.values.begin(), input_.values.end());
    input_exponent_ = static_cast<int16_t>(input_.exponent);
    const bool is_byte = input_.bits <= 8;
    void* const data = is_byte ? static_cast<void*>(bytes_.data()) : words_.data();
    inputs_ = {tensor(data, is_byte ? DataType::kInt8 : DataType::kInt16, shape(), &input_exponent_,
                      input_.bits)};
    c.inputs = inputs_;
    c.parameters = {parameters_.data(), grid_.has_offset ? size_t{2} : size_t{1}};
    c.kernel.pool = &pool_;
    c.kernel.table = &table_;
    c.step.totals = &totals_;
    return c;
  }

  Grid4 grid_;
  Attributes attributes_;
  ThreadPool pool_;
  kernels::KernelTable table_;
  Mantissas input_;
  std::array<ParameterView, 2> parameters_;
  std::array<int16_t, 2> mantissas_ = {}, exponents_ = {};
  std::array<int64_t, 2> gradients_of_ = {};
  int16_t gradient_exponent_ = -40, input_exponent_ = 0, grad_exponent_ = 0;
  int64_t saturated_ = 0;
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
  grid.learns = *rc::gen::element<std::string>("lsq", "clip", "pact", "half-wave");
  grid.has_offset = !grid.is_signed && *rc::gen::arbitrary<bool>();
  if (grid.has_offset) {
    grid.offset = static_cast<int16_t>(*rc::gen::inRange(-32767, 32768));
    grid.offset_exponent = *rc::gen::inRange(-18, -10);
  }
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
        std::ldexp(static_cast<long double>(grid.levels()), grid.exponent) / grid.value();
    const long double unit = std::ldexp(1.0L, found.exponent);
    for (size_t i = 0; i < input.values.size(); ++i) {
      const long double x = std::ldexp(static_cast<long double>(input.values[i]), input.exponent);
      const bool within = !grid.is_below(x) && !grid.is_above(x);
      const long double g = std::ldexp(static_cast<long double>(gradient.values[i]), -20);
      const long double expected = within ? g * slope : 0;
      RC_ASSERT(std::abs(found.values[i] * unit - expected) <=
                unit * 0.51L + std::abs(expected) * 1e-8L);
    }
  });
}

// The derivatives of range / N u by range and offset. u follows x N / range, but is not
// differentiated (LSQ). By range: beyond the range u / N, or 1 and 0 if the offset takes part; else
// (u - v) / N or 0. By offset: 1 beyond the range.
TEST(Quantise, TheGradientsOfRangeAndOffset) {
  rc::check([] {
    const Grid4 grid = drawn_grid();
    const int bits = *rc::gen::element(8, 12);
    const auto count = *rc::gen::inRange(1, 9000);
    const Mantissas input = some_mantissas(count, bits, *rc::gen::inRange(-12, 1), 8);
    const Mantissas gradient = some_mantissas(count, 16, -20, 9);
    const auto found = QuantiseOp(grid, input, best_isa(), 2).backward_weights(gradient);
    RC_ASSERT(found == QuantiseOp(grid, input, Isa::kScalar, 1).backward_weights(gradient));
    const long double inverse_ratio =
        std::ldexp(static_cast<long double>(grid.levels()), grid.exponent) / grid.value();
    const auto levels = static_cast<long double>(grid.levels());
    long double by_range = 0, by_offset = 0, magnitudes = 0;
    for (size_t i = 0; i < input.values.size(); ++i) {
      const long double x = std::ldexp(static_cast<long double>(input.values[i]), input.exponent);
      const long double v = grid.steps(x);
      const long double u = std::clamp<long double>(std::nearbyint(v), grid.low(), grid.high());
      const long double g =
          std::ldexp(static_cast<long double>(gradient.values[i]), -20) * inverse_ratio;
      const long double below = grid.has_offset ? 0 : static_cast<long double>(grid.low()) / levels;
      const long double within = grid.learns == "lsq" ? (u - v) / levels : 0;
      by_range += g * (grid.is_below(x) ? below : grid.is_above(x) ? 1 : within);
      by_offset += grid.is_below(x) || grid.is_above(x) ? g : 0;
      magnitudes += std::abs(g) / levels;
    }
    // Factors have 7 bits: N is between 64 and 127 of their units.
    RC_ASSERT(std::abs(found[0] - by_range) <= magnitudes * levels / 127 + 1e-9L);
    RC_ASSERT(std::abs(found[1] - (grid.has_offset ? by_offset : 0)) <=
              magnitudes * levels * 1e-8L + 1e-9L);
  });
}

// In fp32 the grid and the gradients are the same, unless floats round to the other side of a tie
// or an end.
TEST(Quantise, InFloats) {
  rc::check([] {
    const Grid4 grid = drawn_grid();
    const Attributes attributes = attributes_of(grid);
    constexpr size_t kNumbers = 2000;
    std::vector<float> in(kNumbers), grad(kNumbers), out(kNumbers), grad_in(kNumbers);
    const auto span = static_cast<float>(2 * grid.value());
    for (size_t i = 0; i < kNumbers; ++i) {
      const auto drawn = [&](uint64_t key) {
        return std::ldexp(
            static_cast<float>(static_cast<int32_t>(random_bits(key, RandomStream::kRound, 0, i))),
            -31);
      };
      in[i] = span * drawn(5);
      grad[i] = drawn(6);
    }
    float numbers[] = {static_cast<float>(grid.value()),
                       std::ldexp(static_cast<float>(grid.offset), grid.offset_exponent)};
    float gradients[] = {0, 0};
    const auto tensor = [](float* data, int64_t count) {
      Tensor t;
      t.data = data;
      t.type = DataType::kFloat;
      t.shape = {count};
      return t;
    };
    std::array<ParameterView, 2> parameters;
    for (size_t i = 0; i < 2; ++i) {
      parameters[i].mantissa = tensor(&numbers[i], 1);
      parameters[i].gradient = tensor(&gradients[i], 1);
    }
    Tensor input = tensor(in.data(), kNumbers), grad_input = tensor(grad_in.data(), kNumbers);
    ThreadPool pool(2);
    OpContext c;
    c.node.attributes = &attributes;
    c.inputs = {&input, 1};
    const Tensor output_view = tensor(out.data(), kNumbers);
    c.outputs = {&output_view, 1};
    const Tensor grad_view = tensor(grad.data(), kNumbers);
    c.grad_outputs = {&grad_view, 1};
    c.grad_inputs = {&grad_input, 1};
    c.parameters = {parameters.data(), grid.has_offset ? size_t{2} : size_t{1}};
    c.kernel.pool = &pool;
    const OpRows& floats = *ops::kQuantise.fp32;
    floats.forward.run(c);
    floats.grad_input.run(c);
    floats.grad_weights.run(c);
    const long double unit = std::ldexp(1.0L, grid.exponent);
    const auto levels = static_cast<long double>(grid.levels());
    const long double slope = unit * levels / grid.value();
    long double by_range = 0, by_offset = 0, doubtful = 0;
    for (size_t i = 0; i < kNumbers; ++i) {
      const long double v = grid.steps(in[i]), place = v - std::floor(v);
      const long double u = std::clamp<long double>(std::nearbyint(v), grid.low(), grid.high());
      const bool is_clear = std::abs(place - 0.5L) > 1e-4L;
      const bool is_at_end = std::min(place, 1 - place) < 1e-4L;
      if (is_clear) RC_ASSERT(out[i] == static_cast<float>(u * unit));
      const bool within = !grid.is_below(in[i]) && !grid.is_above(in[i]);
      if (!is_at_end) {
        RC_ASSERT(std::abs(grad_in[i] - (within ? slope * grad[i] : 0)) <= 1e-5L * slope);
      }
      const long double below = grid.has_offset ? 0 : static_cast<long double>(grid.low());
      const long double inside = grid.learns == "lsq" ? u - v : 0;
      const long double factor = grid.is_below(in[i])   ? below
                                 : grid.is_above(in[i]) ? levels
                                                        : inside;
      by_range += grad[i] * factor;
      by_offset += within ? 0 : grad[i] * levels;
      if (!is_clear || is_at_end) doubtful += levels;
    }
    const long double scale = unit / grid.value(), slack = (doubtful + 0.1L * levels) * scale;
    RC_ASSERT(std::abs(gradients[0] - by_range * scale) <= slack);
    RC_ASSERT(std::abs(gradients[1] - (grid.has_offset ? by_offset * scale : 0)) <= slack);
  });
}

// Weights through tanh. A small step by the bent gradient equals a step of DoReFa's number w by its
// own gradient, with the rate over the squared slope at 0.
TEST(BendGradient, IsTheStepOfTheNumberBehindTanh) {
  rc::check([] {
    const int bits = *rc::gen::inRange(2, 8);
    constexpr int kShift = 15;
    const auto range = quantise::mantissa_range(bits, quantise::RangeConvention::kSymmetric);
    const auto form = quantise::weight_form(quantise::TrainingMethod::kDorefa, *range, 1.0);
    const int64_t limit = mantissa_limit(bits);
    const auto count = static_cast<size_t>(*rc::gen::inRange(1, 5000));
    std::vector<int8_t> weights(count);
    std::vector<int16_t> waiting(count);
    std::vector<int64_t> sums(count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t drawn = random_bits(3, RandomStream::kRound, 0, i);
      weights[i] = static_cast<int8_t>(
          static_cast<int64_t>(drawn % static_cast<uint64_t>(2 * limit + 1)) - limit);
      waiting[i] = static_cast<int16_t>(static_cast<int64_t>(drawn >> 32) % 16384);
      sums[i] =
          static_cast<int64_t>(random_bits(4, RandomStream::kRound, 0, i)) >> (drawn % 40 + 3);
    }
    const std::vector<int64_t> before = sums;
    ParameterView view;
    view.mantissa.data = weights.data();
    view.mantissa.shape = {static_cast<int64_t>(count)};
    view.mantissa.bits = bits;
    view.grid = {.bits = bits};
    view.accumulator.data = waiting.data();
    view.lazy_shift = kShift;
    view.gradient.data = sums.data();
    ThreadPool pool(2);
    OpContext c;
    c.parameters = {&view, 1};
    c.kernel.pool = &pool;
    ops::kBendGradient.integer.forward.run(c);
    for (size_t i = 0; i < count; ++i) {
      const double y = weights[i] - std::ldexp(static_cast<double>(waiting[i]), -kShift);
      const double place = std::clamp(y, -static_cast<double>(limit), static_cast<double>(limit));
      const double w = std::atanh(form.largest_tangent * place / static_cast<double>(limit));
      const double slope = quantise::gradient(form, w, 1).weight;
      const double expected =
          static_cast<double>(before[i]) * (slope * slope / quantise::squared_slope(form));
      RC_ASSERT(std::abs(static_cast<double>(sums[i]) - expected) <=
                0.51 + 1e-6 * std::abs(static_cast<double>(before[i])));
    }
  });
}

}  // namespace
}  // namespace mantissa::testing
