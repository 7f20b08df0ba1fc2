// One step of the program, for each training method, against the method's own formulas in double
// (quantise/starts.h). Checks weights inside the range, at its ends and beyond it; their scale;
// range and offset of activations; before a batch norm, and before a rescale. Differences from a
// formula are listed in docs/quantisation.md, and are expected here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/attributes.h"
#include "ops/ops.h"
#include "quantise/starts.h"
#include "tests/frozen/quantised.h"
#include "tests/operators/gradient_check.h"

namespace mantissa::testing {
namespace {

using quantise::WeightForm;

constexpr double kDecay = 5e-4;  // the harness'

// A layer whose weights and whose input have few bits.
struct Place {
  const char *model, *layer;
};
// A batch norm follows the first one, a rescale follows the second.
constexpr Place kPlaces[] = {{"resnet8", "stage2.block1.conv1"}, {"lenet5", "conv2"}};

struct Case {
  LayerBits bits = {3, 3};
  bool has_full_range = false;
};

// The weights of the layer in steps of its grid, as they are in the state.
class Weights {
 public:
  Weights(Harness& harness, const std::string& name) : state_(harness.state()) {
    for (size_t i = 0; i < harness.graph().parameters.size(); ++i) {
      if (harness.graph().parameters[i].name != name) continue;
      index_ = static_cast<int>(i);
      parameter_ = &harness.graph().parameters[i];
      tensors_ = &state_.layout().parameters[i];
    }
  }
  int index() const { return index_; }
  int shift() const { return state_.layout().lazy_shift; }
  double unit() const { return std::ldexp(1.0, -shift()); }
  double step() const { return std::ldexp(1.0, parameter_->grid_exponent); }
  const WeightGrid& grid() const { return parameter_->grid; }
  int64_t count() const { return parameter_->shape.count(); }
  int64_t length() const { return count() / parameter_->shape[0]; }

  void set(const std::vector<int64_t>& values) {
    for (int64_t i = 0; i < count(); ++i) {
      const LazySplit split = grid().split(values[static_cast<size_t>(i)], shift());
      state_.data<int8_t>(tensors_->mantissa)[i] = static_cast<int8_t>(split.weight);
      state_.data<int16_t>(tensors_->accumulator)[i] = static_cast<int16_t>(split.accumulator);
    }
  }
  int64_t mantissa(int64_t i) const { return state_.data<int8_t>(tensors_->mantissa)[i]; }
  int64_t value(int64_t i) const {
    return lazy_value(mantissa(i), state_.data<int16_t>(tensors_->accumulator)[i], shift());
  }
  // The direction of the optimiser: in the first step the gradient and the decay.
  double direction(int64_t i) const {
    const MomentState& velocity = tensors_->moments[0];
    return std::ldexp(state_.data<int16_t>(velocity.mantissa)[i],
                      *state_.data<int16_t>(velocity.exponent));
  }
  double rate_factor() const { return parameter_->rate_factor; }

 private:
  State& state_;
  int index_ = -1;
  const Parameter* parameter_ = nullptr;
  const ParameterState* tensors_ = nullptr;
};

// Numbers V from end to end, including all ends.
std::vector<int64_t> spread_values(const WeightGrid& grid, int shift, int64_t count) {
  const int64_t low = grid.lowest(shift), high = grid.highest(shift), unit = int64_t{1} << shift;
  const int64_t ends[] = {
      low, high, low + 1, high - 1, grid.low() * unit, grid.high() * unit, (low + high) / 2 + 1};
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto drawn = static_cast<int64_t>(random_bits(11, RandomStream::kRound, 0, i) >> 8);
    values.push_back(i < std::ssize(ends) * 16 ? ends[i % std::ssize(ends)]
                                               : low + drawn % (high - low + 1));
  }
  return values;
}

// The method's number w of weights `place` steps from zero; and the place of a w.
double latent(const WeightForm& form, double place) {
  const auto lo = static_cast<double>(form.range.lo), hi = static_cast<double>(form.range.hi);
  if (quantise::has_tangents(form.method)) {
    return std::atanh(form.largest_tangent * (2 * (place - lo) / (hi - lo) - 1));
  }
  return place * (form.method == TrainingMethod::kWrpn ? quantise::alpha_of(form) / form.scale
                                                       : form.scale);
}
double place_of(const WeightForm& form, double w) {
  const auto lo = static_cast<double>(form.range.lo), hi = static_cast<double>(form.range.hi);
  if (quantise::has_tangents(form.method)) {
    return lo + (hi - lo) * (std::tanh(w) / form.largest_tangent + 1) / 2;
  }
  return w / (form.method == TrainingMethod::kWrpn ? quantise::alpha_of(form) / form.scale
                                                   : form.scale);
}

// A quantised network that takes a step, and the weights of one of its layers.
struct Stepped {
  Stepped(const Quantised& found, const std::string& layer, double learning_rate, bool bends = true)
      : harness({.batch_size = kBatch,
                 .micro_batch_size = kBatch,
                 .threads = 2,
                 .learning_rate = learning_rate,
                 .reuses_memory = false},
                bends ? found.start.network : without_bends(found.start.network)),
        weights(harness, layer + ".weights") {
    EXPECT_TRUE(take_named_parameters(harness.graph(), config().format, found.start.parameters,
                                      harness.state())
                    .ok());
  }
  // Gradients pass rounding unchanged.
  static Graph without_bends(Graph graph) {
    for (Parameter& parameter : graph.parameters) {
      parameter.steps_through_tanh = parameter.grid.stops = false;
    }
    return graph;
  }

  Harness harness;
  Weights weights;
};

struct Seen {
  int64_t inside = 0, at_end = 0, stopped = 0, clipped = 0;
};

// How far the formula moves one weight, in steps of the grid, with the rate over the squared slope.
// `gradient` is the gradient of the loss with respect to the quantised weight.
double expected_move(const WeightForm& form, double place, bool is_beyond, double gradient,
                     double rate) {
  // The waiting part has no room for the first V beyond n (weight_grid.h): the last V before n
  // stands for it.
  const double w = is_beyond ? std::copysign(1.001, place) : latent(form, place);
  const double step =
      rate / quantise::squared_slope(form) * quantise::gradient(form, w, gradient).weight;
  return place_of(form, latent(form, place) - step) - place;
}

void check_weights(const Quantised& quantised_network, const std::string& layer,
                   const WeightForm& form, double factor, Seen& seen) {
  Stepped plain(quantised_network, layer, 1e-6, false);
  const Weights& w = plain.weights;
  const WeightGrid grid = w.grid();
  WeightGrid of_method = grid;
  of_method.stops = quantise::stops_gradients(form.method);
  const std::vector<int64_t> values = spread_values(of_method, w.shift(), w.count());
  // W are the W of the method's network: the V that are clipped here round to the same.
  plain.weights.set(values);
  plain.harness.step();
  double largest_gradient = 0, largest_direction = 0;
  std::vector<double> gradients;  // with respect to the numbers of the layer
  for (int64_t i = 0; i < w.count(); ++i) {
    const double number =
        std::ldexp(static_cast<double>(std::clamp(values[i], grid.lowest(15), grid.highest(15))),
                   -w.shift()) *
        w.step();
    gradients.push_back(w.direction(i) - kDecay * number);
    largest_gradient = std::max(largest_gradient, std::abs(gradients.back()));
    largest_direction = std::max(largest_direction, std::abs(w.direction(i)));
  }
  ASSERT_GT(largest_gradient, 0);
  // The largest step is a quarter of the grid's.
  const double rate = 0.25 * w.step() / (w.rate_factor() * largest_gradient);
  Stepped method(quantised_network, layer, rate);
  ASSERT_EQ(method.weights.grid().stops, of_method.stops);
  method.weights.set(values);
  for (int64_t i = 0; i < w.count(); ++i) {
    if (values[i] == 0) continue;
    ASSERT_EQ(method.weights.value(i), values[i]);
  }
  method.harness.step();
  // The velocities have 16 bits.
  const double slack =
      3 * w.unit() + std::ldexp(rate * w.rate_factor() * largest_direction / w.step(), -13);
  const double low = std::ldexp(static_cast<double>(of_method.lowest(w.shift())), -w.shift());
  const double high = std::ldexp(static_cast<double>(of_method.highest(w.shift())), -w.shift());
  double moved = 0;
  for (int64_t i = 0; i < w.count(); ++i) {
    const double at = std::ldexp(static_cast<double>(values[i]), -w.shift());
    const bool is_beyond = of_method.is_stopped(values[i], w.shift());
    const double move = expected_move(form, at, is_beyond, gradients[i] / factor, rate);
    ASSERT_TRUE(!is_beyond || std::abs(move) < 1e-12) << move;
    // Decay acts on V, also on the V of a tanh. If a V leaves the range, it is clipped; the formula
    // stops its gradient there.
    const double decay = rate * w.rate_factor() * kDecay * at;
    const double expected = std::clamp(at + move - decay, low, high);
    const double found = std::ldexp(static_cast<double>(method.weights.value(i)), -w.shift());
    // Steps through tanh are of first order. At the ends, where it bends most, the second-order
    // term is 1.4 times the square, in halves of the range.
    const double half = static_cast<double>(form.range.hi - form.range.lo) / 2;
    const double second = quantise::has_tangents(form.method) ? 1.5 * move * move / half : 0;
    ASSERT_NEAR(found, expected, slack + second) << i << " from " << at;
    moved = std::max(moved, std::abs(move));
    const bool is_at_end =
        at == static_cast<double>(grid.low()) || at == static_cast<double>(grid.high());
    seen.stopped += is_beyond;
    seen.at_end += is_at_end;
    seen.inside += !is_beyond && !is_at_end;
    seen.clipped += found == low || found == high;
  }
  EXPECT_GT(moved, 0.1);
}

// The form of a layer with one scale. The network after the layer takes out this scale over
// 2^exponent.
WeightForm form_of(QuantiseSource& source, const std::string& layer,
                   const QuantiseSettings& settings) {
  const auto before = named_parameters(source.plan.network, source.state);
  const auto range = quantise::mantissa_range(
      settings.bits.all.weights, settings.has_full_range ? quantise::RangeConvention::kFull
                                                         : quantise::RangeConvention::kSymmetric);
  const auto found = quantise::quantise_weights(real_numbers(named(before, layer + ".weights")),
                                                {.range = *range, .scale_bits = 53});
  EXPECT_TRUE(found.ok());
  // With 24 bits w / alpha is exact, also at the ends of the range.
  return quantise::weight_form(settings.training, *range,
                               quantise::nearest_scale(found->scales[0], 24));
}

TEST(QuantisedStep, WeightsMoveByTheFormulaOfTheMethod) {
  constexpr Case kCases[] = {{{3, 3}, false}, {{4, 4}, true}, {{1, 3}, false}, {{1, 3}, true}};
  for (const Place& place : kPlaces) {
    Harness harness = trained_harness(place.model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    for (const auto& [name, method] : kMethods) {
      int64_t clipped = 0;
      for (const Case& each : kCases) {
        SCOPED_TRACE(std::string(place.model) + ", " + name + ", bits " +
                     std::to_string(each.bits.weights) + (each.has_full_range ? ", full" : ""));
        QuantiseSettings settings = settings_of(method, Sides::kBoth, each.bits);
        settings.scales_per_channel = false;
        settings.has_full_range = each.has_full_range;
        const WeightForm form = form_of(source, place.layer, settings);
        const double alpha = quantise::alpha_of(form);
        const double factor = std::ldexp(alpha, -std::ilogb(alpha));
        Seen seen;
        check_weights(quantised(source, settings), place.layer, form, factor, seen);
        EXPECT_GT(seen.inside, 100);
        EXPECT_GT(seen.at_end, 20);
        EXPECT_EQ(seen.stopped > 10, method == TrainingMethod::kWrpn);
        clipped += seen.clipped;
      }
      EXPECT_GT(clipped, 20) << name;
    }
  }
}

const Parameter* find_parameter(const Graph& graph, const std::string& name) {
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

// The scale of a layer before a rescale, where all methods train it. It has WRPN's gradient, the
// sum of g q. LSQ's own would be the sum of g (q - w / alpha); here V stays in steps of alpha.
// Before a batch norm there is no such parameter.
TEST(QuantisedStep, TheScaleHasTheGradientOfWrpn) {
  Harness trained = trained_harness("lenet5");
  trained.train(10);
  QuantiseSource source = source_of(trained);
  for (const auto& [name, method] : kMethods) {
    SCOPED_TRACE(name);
    const std::string layer = "conv2";
    QuantiseSettings settings = settings_of(method);
    settings.scales_per_channel = false;
    const WeightForm form = form_of(source, layer, settings);
    const double factor =
        std::ldexp(quantise::alpha_of(form), -std::ilogb(quantise::alpha_of(form)));
    Stepped one(quantised(source, settings), layer, 1e-6, false);
    const std::string owner = tracks_range(method) ? layer + ".input" : layer + ".rescale";
    one.harness.step();
    const Weights scale(one.harness, owner + ".scale");
    const std::vector<double> scales = parameter_numbers(one.harness.state(), scale.index());
    std::vector<double> expected;
    double most = 0;
    for (int64_t c = 0; c < scale.count(); ++c) {
      double sum = 0;
      for (int64_t i = c * one.weights.length(); i < (c + 1) * one.weights.length(); ++i) {
        const double place = std::ldexp(static_cast<double>(one.weights.value(i)), -15);
        // The step has moved the weights too little to matter.
        const double g = (one.weights.direction(i) - kDecay * place * one.weights.step()) / factor;
        WeightForm wrpn =
            quantise::weight_form(TrainingMethod::kWrpn, form.range, quantise::alpha_of(form));
        const double of_alpha0 =
            quantise::gradient(wrpn, latent(wrpn, std::nearbyint(place)), g).scale;
        // alpha0 = n alpha. alpha is 2^exponent times the scale, which includes the input's factor
        // if the range is not trained.
        sum += of_alpha0 * (wrpn.scale / quantise::alpha_of(wrpn)) * one.weights.step() *
               (factor / scales[static_cast<size_t>(c)]);
      }
      expected.push_back(sum);
      most = std::max(most, std::abs(sum));
    }
    ASSERT_GT(most, 0);
    for (int64_t c = 0; c < scale.count(); ++c) {
      // The layer's results, which the scale multiplies, have 8 bits.
      EXPECT_NEAR(scale.direction(c), expected[static_cast<size_t>(c)], 0.05 * most) << c;
    }
  }
  Harness normed = trained_harness("resnet8");
  normed.train(2);
  QuantiseSource other = source_of(normed);
  const Quantised found = quantised(other, settings_of(TrainingMethod::kWrpn));
  EXPECT_EQ(find_parameter(found.start.network, "stage2.block1.conv1.input.scale"), nullptr);
  EXPECT_EQ(find_parameter(found.start.network, "stage2.block1.conv1.rescale.scale"), nullptr);
}

// The instruction of a node in a phase; -1: there is none.
int instruction_of(Harness& harness, const std::string& node, SegmentKind kind) {
  const Program& program = harness.program();
  for (int i = 0; i < std::ssize(program.instructions); ++i) {
    const Instruction& one = program.instructions[i];
    if (one.node < 0 || kind_of(one) != kind) continue;
    if (harness.graph().nodes[one.node].name == node) return i;
  }
  return -1;
}

// The gradients of a layer's input, of its range and its offset.
void check_activations(Harness& harness, TrainingMethod method, const LayerOutcome& layer) {
  const std::string node = quantise_node_name(layer.name);
  const int backward = instruction_of(harness, node, SegmentKind::kGradWeights);
  const int to_input = instruction_of(harness, node, SegmentKind::kGradInput);
  const quantise::TrainedValues trained = quantise::trained_values(method);
  EXPECT_EQ(backward >= 0, trained.activation_scale || trained.activation_offset);
  if (std::max(backward, to_input) < 0) return;
  const OpContext& c = harness.executor().context(std::max(backward, to_input));
  const auto range = quantise::mantissa_range(
      layer.bits.activations, layer.is_signed ? quantise::RangeConvention::kSymmetric
                                              : quantise::RangeConvention::kUnsigned);
  const auto hi = static_cast<double>(range->hi);
  const quantise::LinearGrid grid{layer.range / hi, layer.offset, *range};
  const double factor = std::ldexp(grid.scale, -c.attributes<ops::QuantiseAttributes>().exponent);
  const Reals x = reals(c.inputs[0]), g = reals(c.grad_output());
  Reals of_input;
  double of_range = 0, of_offset = 0, size = 0, largest_input = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    // The network computes with x_q over the factor.
    const auto own = quantise::gradient(method, grid, x[i], g[i] / factor);
    of_input.push_back(own.input);
    of_range += own.scale / hi;
    of_offset += own.offset;
    size += std::abs(g[i] / factor);
    largest_input = std::max(largest_input, std::abs(own.input));
  }
  if (to_input >= 0) {
    const OpContext& input = harness.executor().context(to_input);
    const Reals found = reals(input.grad_inputs[0]);
    const double unit = std::ldexp(1.0, *input.grad_inputs[0].exponent);
    // The trained range has 16 bits, and may round a number at an end to the other side.
    int64_t others = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      others += std::abs(found[i] - of_input[i]) > unit + 1e-6 * largest_input;
    }
    EXPECT_LE(others, std::ssize(found) / 500);
  }
  if (backward < 0) return;
  // The update has overwritten the sums: the instruction runs once more.
  const OpContext& own = harness.executor().context(backward);
  for (const ParameterView& p : own.parameters) {
    if (!p.gradient.empty()) std::memset(p.gradient.data, 0, sizeof(int64_t));
  }
  ops::kQuantise.integer.grad_weights.run(own);
  const double slack = size / 127 + 0.002 * size;
  ASSERT_EQ(!own.parameters[0].gradient.empty(), trained.activation_scale);
  EXPECT_NEAR(reals(own.parameters[0].gradient)[0], of_range, slack) << layer.name;
  if (layer.offset == 0) return;
  EXPECT_NEAR(reals(own.parameters[1].gradient)[0], of_offset, slack) << layer.name;
  EXPECT_GT(std::abs(of_offset), 0);
}

TEST(QuantisedStep, RangesAndOffsetsHaveTheGradientsOfTheMethod) {
  for (const Place& place : kPlaces) {
    Harness harness = trained_harness(place.model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    for (const auto& [name, method] : kMethods) {
      SCOPED_TRACE(std::string(place.model) + ", " + name);
      const Quantised found = quantised(source, settings_of(method));
      Stepped one(found, place.layer, 1e-6);
      one.harness.step();
      int checked = 0;
      for (const LayerOutcome& layer : found.start.layers) {
        // The last layer's range is not trained.
        if (!layer.any_scale) continue;
        check_activations(one.harness, method, layer);
        ++checked;
      }
      EXPECT_GT(checked, 2);
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
