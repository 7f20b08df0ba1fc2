// Grids whose range is trained, and weights on grids that stay: `quantise` against its definition,
// and what training does to such parameters.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cmath>
#include <string>

#include "base/test_folder.h"
#include "quantize/starts.h"
#include "runtime/named_parameters.h"
#include "tests/harness.h"
#include "tests/networks.h"
#include "tests/single_op.h"
#include "train/state_file.h"

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

// The operator on one tensor, with memory of its own.
class QuantiseOp {
 public:
  QuantiseOp(const Grid4& grid, const Mantissas& input, Isa isa, int threads)
      : grid_(grid),
        attributes_({{"bits", int64_t{grid.bits}},
                     {"exponent", int64_t{grid.exponent}},
                     {"learns", grid.learns},
                     {"offset", int64_t{grid.has_offset ? 1 : 0}},
                     {"signed", int64_t{grid.is_signed ? 1 : 0}}}),
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

  // The gradients of the range and of the offset.
  std::array<long double, 2> backward_weights(const Mantissas& gradient) {
    OpContext c = context();
    load(gradient, c.grad_output);
    gradients_of_ = {};
    ops::kQuantise.backward_weights(c);
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
    c.parameters = {parameters_.data(), grid_.has_offset ? size_t{2} : size_t{1}};
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

// The derivatives of range / N u by range and offset, where u follows x N / range but is not
// differentiated (LSQ): by range u / N beyond the range, or 1 and 0 where the offset takes part,
// else (u - v) / N or 0; by offset 1 beyond the range.
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

// In fp32 the same grid and the same gradients, but where floats round to the other side of a tie
// or an end.
TEST(Quantise, InFloats) {
  rc::check([] {
    const Grid4 grid = drawn_grid();
    const Attributes attributes({{"bits", int64_t{grid.bits}},
                                 {"exponent", int64_t{grid.exponent}},
                                 {"learns", grid.learns},
                                 {"offset", int64_t{grid.has_offset ? 1 : 0}},
                                 {"signed", int64_t{grid.is_signed ? 1 : 0}}});
    constexpr size_t kCount = 2000;
    std::vector<float> in(kCount), grad(kCount), out(kCount), grad_in(kCount);
    const auto span = static_cast<float>(2 * grid.value());
    for (size_t i = 0; i < kCount; ++i) {
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
    Tensor input = tensor(in.data(), kCount), grad_input = tensor(grad_in.data(), kCount);
    ThreadPool pool(2);
    OpContext c;
    c.attributes = &attributes;
    c.inputs = {&input, 1};
    c.output = tensor(out.data(), kCount);
    c.grad_output = tensor(grad.data(), kCount);
    c.grad_inputs = {&grad_input, 1};
    c.parameters = {parameters.data(), grid.has_offset ? size_t{2} : size_t{1}};
    c.kernel.pool = &pool;
    const OpFunctions& floats = *ops::kQuantise.fp32;
    floats.forward(c);
    floats.backward_input(c);
    floats.backward_weights(c);
    const long double unit = std::ldexp(1.0L, grid.exponent);
    const auto levels = static_cast<long double>(grid.levels());
    const long double slope = unit * levels / grid.value();
    long double by_range = 0, by_offset = 0, doubtful = 0;
    for (size_t i = 0; i < kCount; ++i) {
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

// Weights through tanh: a small step by the bent gradient is one of DoReFa's number w by its own,
// with the rate over the squared slope at 0.
TEST(BendGradient, IsTheStepOfTheNumberBehindTanh) {
  rc::check([] {
    const int bits = *rc::gen::inRange(2, 8);
    constexpr int kShift = 15;
    const auto range = quantize::mantissa_range(bits, quantize::RangeConvention::kSymmetric);
    const auto form = quantize::weight_form(quantize::TrainingMethod::kDorefa, *range, 1.0);
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
    ops::kBendGradient.forward(c);
    for (size_t i = 0; i < count; ++i) {
      const double y = weights[i] - std::ldexp(static_cast<double>(waiting[i]), -kShift);
      const double place = std::clamp(y, -static_cast<double>(limit), static_cast<double>(limit));
      const double w = std::atanh(form.largest_tangent * place / static_cast<double>(limit));
      const double slope = quantize::gradient(form, w, 1).weight;
      const double expected =
          static_cast<double>(before[i]) * (slope * slope / quantize::squared_slope(form));
      RC_ASSERT(std::abs(static_cast<double>(sums[i]) - expected) <=
                0.51 + 1e-6 * std::abs(static_cast<double>(before[i])));
    }
  });
}

// The network of quantised layers, whose weights have another range or other bits.
Graph with_grids(const WeightGrid& grid) {
  Graph graph = with_quantised_layers();
  for (Node& node : graph.nodes) {
    if (node.op != &ops::kConvolution || node.attributes.whole("weight_bits") == 0) continue;
    std::vector<Attributes::Item> items;
    for (const Attributes::Item& item : node.attributes.items()) {
      if (item.first.starts_with("weight_") && item.first != "weight_exponent") continue;
      items.push_back(item);
    }
    items.emplace_back("weight_bits", int64_t{grid.bits});
    items.emplace_back("weight_range", grid.is_full ? "full" : "symmetric");
    items.emplace_back("weight_tanh", int64_t{0});
    items.emplace_back("weight_stops", int64_t{grid.stops ? 1 : 0});
    node.attributes = Attributes(std::move(items));
    graph.parameters[node.parameters[0]].grid = grid;
  }
  return graph;
}

// Training with a rate that is much too high: exponents stay, and weights at the ends.
void check_clipping(const HarnessOptions& options, const Graph& network) {
  Harness harness(options, network);
  harness.train(12);
  const Graph& graph = harness.graph();
  const State& state = harness.state();
  const int shift = state.layout().lazy_shift;
  int fixed = 0;
  int64_t at_the_ends = 0;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    if (parameter.grid.bits == 0) continue;
    ++fixed;
    const ParameterState& tensors = state.layout().parameters[i];
    EXPECT_EQ(*state.data<int16_t>(tensors.exponent), parameter.grid_exponent);
    EXPECT_EQ(state.layout().tensors[tensors.exponent].shape.count(), 1);
    const auto* weights = state.data<int8_t>(tensors.mantissa);
    const auto* waiting =
        tensors.accumulator < 0 ? nullptr : state.data<int16_t>(tensors.accumulator);
    for (int64_t w = 0; w < parameter.shape.count(); ++w) {
      ASSERT_TRUE(parameter.grid.is_split(weights[w], waiting == nullptr ? 0 : waiting[w],
                                          waiting == nullptr ? 0 : shift))
          << int{weights[w]};
      at_the_ends += weights[w] == parameter.grid.low() || weights[w] == parameter.grid.high();
    }
  }
  EXPECT_EQ(fixed, 2);
  EXPECT_GT(at_the_ends, 50);
}

TEST(FixedGrids, UpdatesClip) {
  for (const char* format : {"bfp8", "bfp:acc=0", "dfp8", "bfp:block=channel"}) {
    SCOPED_TRACE(format);
    check_clipping({.format = format, .learning_rate = 4}, with_quantised_layers());
  }
}

constexpr WeightGrid kOtherGrids[] = {{.bits = 1},
                                      {.bits = 1, .is_full = true},
                                      {.bits = 4, .is_full = true},
                                      {.bits = 1, .stops = true},
                                      {.bits = 3, .stops = true},
                                      {.bits = 3, .is_full = true, .stops = true}};

TEST(FixedGrids, UpdatesSplitByOtherGrids) {
  for (const WeightGrid& grid : kOtherGrids) {
    for (const char* format : {"bfp8", "bfp:acc=4", "bfp:acc=0", "dfp8"}) {
      SCOPED_TRACE(std::string(format) + ", bits " + std::to_string(grid.bits) +
                   (grid.is_full ? ", full" : "") + (grid.stops ? ", stops" : ""));
      check_clipping({.format = format, .learning_rate = 0.5}, with_grids(grid));
    }
  }
}

// The float weights of the layers of few bits, and what the optimiser stepped along.
struct FloatWeights {
  float* numbers = nullptr;
  const float* directions = nullptr;
  int64_t count = 0;
  double unit = 0;
};

FloatWeights float_weights(Harness& harness) {
  for (size_t i = 0; i < harness.graph().parameters.size(); ++i) {
    const Parameter& parameter = harness.graph().parameters[i];
    if (parameter.grid.bits == 0) continue;
    const ParameterState& tensors = harness.state().layout().parameters[i];
    return {harness.state().data<float>(tensors.mantissa),
            harness.state().data<float>(tensors.moments[0].mantissa), parameter.shape.count(),
            std::ldexp(1.0, parameter.grid_exponent)};
  }
  return {};
}

Graph through_tanh(Graph graph) {
  for (Node& node : graph.nodes) {
    if (node.op != &ops::kConvolution || node.attributes.whole("weight_bits") == 0) continue;
    std::vector<Attributes::Item> items;
    for (const Attributes::Item& item : node.attributes.items()) {
      if (item.first != "weight_tanh") items.push_back(item);
    }
    items.emplace_back("weight_tanh", int64_t{1});
    node.attributes = Attributes(std::move(items));
  }
  return graph;
}

// In float weights have a master copy, which is not clipped: its gradient is the method's own,
// within the range and beyond.
TEST(FixedGrids, InFloatsGradientsAreThoseOfTheMethods) {
  using quantize::TrainingMethod;
  constexpr double kDecay = 5e-4;  // the harness'
  for (const WeightGrid& grid : {WeightGrid{.bits = 3}, WeightGrid{.bits = 3, .is_full = true},
                                 WeightGrid{.bits = 1}, WeightGrid{.bits = 1, .is_full = true}}) {
    const auto range =
        quantize::mantissa_range(grid.bits, grid.is_full ? quantize::RangeConvention::kFull
                                                         : quantize::RangeConvention::kSymmetric);
    const double n = std::ldexp(1.0, grid.bits - 1);
    // Weights from -1.25 n to 1.25 n; the gradient as rounding passes it on, from a grid that lets
    // it through as far as n.
    const auto step = [&](const Graph& network, double reach) {
      Harness harness({.format = "fp32", .learning_rate = 1e-6}, network);
      const FloatWeights w = float_weights(harness);
      std::vector<double> places, gradients;
      for (int64_t i = 0; i < w.count; ++i) {
        const double drawn = static_cast<double>(i * 7919 % 2001 - 1000) / 1000;
        places.push_back(drawn * 1.25 * n);
        w.numbers[i] = static_cast<float>(std::clamp(places.back(), -reach, reach) * w.unit);
      }
      const std::vector<float> before(w.numbers, w.numbers + w.count);
      harness.step();
      for (int64_t i = 0; i < w.count; ++i) {
        gradients.push_back(w.directions[i] - kDecay * before[static_cast<size_t>(i)]);
      }
      return std::pair(places, gradients);
    };
    WeightGrid stops = grid;
    stops.stops = true;
    const auto [places, passed] = step(with_grids(stops), n);
    double most = 0;
    for (const double g : passed) most = std::max(most, std::abs(g));
    ASSERT_GT(most, 0);
    for (const auto& [method, network] :
         {std::pair{TrainingMethod::kUniform, with_grids(grid)},
          {TrainingMethod::kWrpn, with_grids(stops)},
          {TrainingMethod::kDorefa, through_tanh(with_grids(grid))}}) {
      SCOPED_TRACE(std::string("bits ") + std::to_string(grid.bits) +
                   (grid.is_full ? ", full" : "") + ", method " +
                   std::to_string(static_cast<int>(method)));
      const auto form = quantize::weight_form(method, *range, 1.0);
      const auto gradients = step(network, 2 * n).second;
      int64_t zeros = 0, others = 0;
      for (size_t i = 0; i < places.size(); ++i) {
        double latent = method == TrainingMethod::kWrpn ? places[i] / n : places[i];
        if (method == TrainingMethod::kDorefa) {
          const auto lo = static_cast<double>(range->lo), hi = static_cast<double>(range->hi);
          const double tangent = form.largest_tangent * (2 * (places[i] - lo) / (hi - lo) - 1);
          if (std::abs(tangent) >= 1) continue;  // no number has it
          latent = std::atanh(tangent);
        }
        const double slope = quantize::gradient(form, latent, 1).weight;
        // A step of the weight itself: slope^2, over the squared slope that rates are divided by.
        const double expected = passed[i] * slope * slope / quantize::squared_slope(form);
        ASSERT_NEAR(gradients[i], expected, 1e-4 * most) << places[i];
        ++(slope == 0 ? zeros : others);
      }
      EXPECT_GT(others, 100);
      EXPECT_TRUE(method == TrainingMethod::kDorefa || zeros > 100);
    }
  }
}

// A file with weights that the grid does not have, or that are not split by it, is refused.
TEST(FixedGrids, FilesAreCheckedAgainstTheGrid) {
  const TestFolder folder;
  for (const WeightGrid& grid : kOtherGrids) {
    Harness harness({}, with_grids(grid));
    harness.train(2);
    const auto read = [&](int64_t mantissa, int64_t waiting) {
      auto spoilt = State::create(harness.state().layout());
      std::copy_n(harness.state().all_bytes().data(), harness.state().all_bytes().size(),
                  spoilt->all_bytes().data());
      for (const ParameterState& p : spoilt->layout().parameters) {
        if (p.grid.bits == 0) continue;
        spoilt->data<int8_t>(p.mantissa)[3] = static_cast<int8_t>(mantissa);
        spoilt->data<int16_t>(p.accumulator)[3] = static_cast<int16_t>(waiting);
      }
      EXPECT_TRUE(write_state(folder / "state.safetensors", {}, *spoilt).ok());
      const auto file = read_safetensors(folder / "state.safetensors");
      auto copy = State::create(harness.state().layout());
      return read_state(folder / "state.safetensors", *file, *copy).ok();
    };
    SCOPED_TRACE(grid.bits);
    EXPECT_TRUE(read(grid.low(), 0));
    EXPECT_FALSE(read(grid.low() - 1, 0));
    EXPECT_FALSE(read(grid.high() + 1, 0));
    EXPECT_EQ(read(grid.high(), -20000), grid.stops && !grid.is_sign());
    EXPECT_EQ(read(0, 0), !grid.is_sign());
  }
}

// The bits do not depend on threads, instruction sets and micro-batches, nor on a checkpoint
// between.
TEST(FixedGrids, OtherGridsHaveTheSameBits) {
  for (const WeightGrid& grid : kOtherGrids) {
    const Graph network = with_grids(grid);
    std::string expected;
    for (const auto& [threads, isa] :
         {std::pair{1, Isa::kScalar}, {2, Isa::kScalar}, {2, best_isa()}}) {
      Harness harness({.threads = threads, .isa = isa}, network);
      harness.train(4);
      if (expected.empty()) expected = harness.state_sha256();
      EXPECT_EQ(harness.state_sha256(), expected) << grid.bits << " " << threads;
      // What was trained is taken as it is.
      auto copy = State::create(harness.state().layout());
      initialise(harness.graph(), {}, 5, *copy);
      const auto taken = take_named_parameters(
          harness.graph(), {}, named_parameters(harness.graph(), harness.state()), *copy);
      ASSERT_TRUE(taken.ok()) << taken.error().message;
      EXPECT_EQ(copy->sha256(StateGroup::kStatistics), harness.weights_sha256());
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
