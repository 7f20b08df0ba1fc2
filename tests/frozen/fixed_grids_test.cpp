// Weights on grids that stay: how training moves them, in integers and in floats.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "base/test_folder.h"
#include "infer/state_file.h"
#include "ops/attributes.h"
#include "quantise/starts.h"
#include "runtime/named_parameters.h"
#include "tests/harness.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

// The network of quantised layers, with another range or other bits for its weights.
Graph with_grids(const WeightGrid& grid) {
  Graph graph = with_quantised_layers();
  for (Node& node : graph.nodes) {
    if (node.op != &ops::kConvolution ||
        node.attributes.as<ops::LayerAttributes>().weight_bits == 0)
      continue;
    std::vector<Attributes::Item> items;
    for (const Attributes::Item& item : node.attributes.items()) {
      if (item.first.starts_with("weight_") && item.first != "weight_exponent") continue;
      items.push_back(item);
    }
    items.emplace_back("weight_bits", int64_t{grid.bits});
    items.emplace_back("weight_range", grid.is_full ? "full" : "symmetric");
    items.emplace_back("weight_tanh", int64_t{0});
    items.emplace_back("weight_stops", int64_t{grid.stops ? 1 : 0});
    replace_op(node, *node.op, Attributes(std::move(items)));
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
      // Here values stay within the ends. Grids of signs split them all the same.
      if (grid.is_sign()) {
        check_clipping({.format = format, .learning_rate = 0.002}, with_grids(grid));
      }
    }
  }
}

// The float weights of the layers of few bits, and the directions of the optimiser.
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
    if (node.op != &ops::kConvolution ||
        node.attributes.as<ops::LayerAttributes>().weight_bits == 0)
      continue;
    std::vector<Attributes::Item> items;
    for (const Attributes::Item& item : node.attributes.items()) {
      if (item.first != "weight_tanh") items.push_back(item);
    }
    items.emplace_back("weight_tanh", int64_t{1});
    replace_op(node, *node.op, Attributes(std::move(items)));
  }
  return graph;
}

// The smallest weight counts as one of its sign: {-1, +1} has no 0.
TEST(FixedGrids, InFloatsSignsHaveNoZero) {
  const auto loss = [](double size) {
    Harness harness({.format = "fp32"}, with_grids({.bits = 1}));
    const FloatWeights w = float_weights(harness);
    for (int64_t i = 0; i < w.count; ++i) {
      w.numbers[i] = static_cast<float>(std::copysign(size * w.unit, w.numbers[i]));
    }
    return harness.step().loss;
  };
  EXPECT_EQ(loss(0.1), loss(1));
}

// In float, weights have a master copy, which is not clipped. Its gradient is the method's own,
// within the range and beyond.
TEST(FixedGrids, InFloatsGradientsAreThoseOfTheMethods) {
  using quantise::TrainingMethod;
  constexpr double kDecay = 5e-4;  // the harness'
  for (const WeightGrid& grid : {WeightGrid{.bits = 3}, WeightGrid{.bits = 3, .is_full = true},
                                 WeightGrid{.bits = 1}, WeightGrid{.bits = 1, .is_full = true}}) {
    const auto range =
        quantise::mantissa_range(grid.bits, grid.is_full ? quantise::RangeConvention::kFull
                                                         : quantise::RangeConvention::kSymmetric);
    const double n = std::ldexp(1.0, grid.bits - 1);
    // Weights from -1.25 n to 1.25 n. The gradient passes rounding unchanged, in a grid that lets
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
      const auto form = quantise::weight_form(method, *range, 1.0);
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
        const double slope = quantise::gradient(form, latent, 1).weight;
        // The weight's own step: slope^2, divided by the squared slope, as rates are.
        const double expected = passed[i] * slope * slope / quantise::squared_slope(form);
        ASSERT_NEAR(gradients[i], expected, 1e-4 * most) << places[i];
        ++(slope == 0 ? zeros : others);
      }
      EXPECT_GT(others, 100);
      EXPECT_TRUE(method == TrainingMethod::kDorefa || zeros > 100);
    }
  }
}

// A file is refused if its weights are not on the grid, or are not split by it.
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

// The bits do not depend on threads and instruction sets. Trained weights are taken as they are.
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
      // Trained weights are taken as they are.
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
