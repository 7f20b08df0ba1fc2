// Parameters by name: copied if grids agree, rounded if not, and listed in either case.
#include "runtime/named_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "models/models.h"

namespace mantissa {
namespace {

Graph network(int64_t classes = 10, const char* name = "resnet8") {
  auto graph = build_model(name, {.classes = classes, .channel_means = {0}});
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

Format format_of(const char* text) {
  const auto format = parse_format(text);
  EXPECT_TRUE(format.ok()) << text;
  return *format;
}

State fresh(const Graph& graph, const Format& format, uint64_t seed) {
  auto state = State::create(training_layout(graph, format, OptimizerKind::kMomentum));
  EXPECT_TRUE(state.ok());
  initialise(graph, format, seed, *state);
  return std::move(*state);
}

// The value of an element as the forward pass sees it; and the same with its waiting part added.
struct StateElement {
  double seen = 0, whole = 0;
};
StateElement element(const Graph& graph, const State& state, const char* name, int64_t i) {
  for (size_t p = 0; p < graph.parameters.size(); ++p) {
    if (graph.parameters[p].name != name) continue;
    const ParameterState& tensors = state.layout().parameters[p];
    if (tensors.exponent < 0) {
      const double value = state.data<float>(tensors.mantissa)[i];
      return {value, value};
    }
    const int64_t blocks = state.layout().tensors[tensors.exponent].shape.count();
    const int64_t length = graph.parameters[p].shape.count() / blocks;
    const int exponent = state.data<int16_t>(tensors.exponent)[i / length];
    const bool narrow = state.layout().tensors[tensors.mantissa].type == DataType::kInt8;
    const int mantissa =
        narrow ? state.data<int8_t>(tensors.mantissa)[i] : state.data<int16_t>(tensors.mantissa)[i];
    const int waits = tensors.accumulator < 0 ? 0 : state.data<int16_t>(tensors.accumulator)[i];
    return {
        std::ldexp(mantissa, exponent),
        std::ldexp(mantissa, exponent) - std::ldexp(waits, exponent - state.layout().lazy_shift)};
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(NamedParameters, OfTheSameGridAreTheSameBits) {
  for (const char* text : {"bfp8", "bfp:w=4,acc=8", "bfp:block=channel,bias=8", "dfp8", "fp32"}) {
    const Graph graph = network();
    const Format format = format_of(text);
    const State source = fresh(graph, format, 7);
    State state = fresh(graph, format, 8);
    EXPECT_NE(state.sha256(StateGroup::kStatistics), source.sha256(StateGroup::kStatistics));
    const auto taken = take_named_parameters(graph, format, named_parameters(graph, source), state);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
    EXPECT_EQ(taken->taken.size(), graph.parameters.size());
    EXPECT_TRUE(taken->initial.empty() && taken->left_over.empty());
    EXPECT_EQ(state.sha256(StateGroup::kStatistics), source.sha256(StateGroup::kStatistics))
        << text;
  }
}

TEST(NamedParameters, TakenOnesAreNotDrawn) {
  for (const char* text : {"bfp8", "bfp:w=4,acc=8", "bfp:block=channel,bias=8", "dfp8", "fp32"}) {
    const Graph graph = network();
    const Format format = format_of(text);
    const State source = fresh(graph, format, 7);
    std::vector<NamedParameter> most = named_parameters(graph, source);
    std::erase_if(most, [](const NamedParameter& each) { return each.name == "stem.weights"; });
    ASSERT_LT(most.size(), graph.parameters.size());
    const std::vector<bool> taken = taken_parameters(graph, most);
    State drawn = fresh(graph, format, 8);
    auto empty = State::create(drawn.layout());
    ASSERT_TRUE(empty.ok());
    initialise(graph, format, 8, *empty, taken);
    for (size_t i = 0; i < taken.size(); ++i) {
      const auto numbers = empty->bytes(empty->layout().parameters[i].mantissa);
      const bool is_zero = std::ranges::all_of(numbers, [](std::byte b) { return b == std::byte(0); });
      EXPECT_TRUE(!taken[i] || is_zero) << text << " " << graph.parameters[i].name;
    }
    int asked = 0;
    for (State* state : {&drawn, &*empty}) {
      ASSERT_TRUE(take_named_parameters(
                      graph, format, most,
                      [&](size_t i) -> Result<NamedParameter> {
                        ++asked;
                        return most[i];
                      },
                      *state)
                      .ok());
    }
    EXPECT_EQ(asked, 2 * std::ssize(most));
    EXPECT_EQ(drawn.sha256(StateGroup::kPredictor), empty->sha256(StateGroup::kPredictor)) << text;
  }
}

TEST(NamedParameters, StatisticsAreTaken) {
  const Graph graph = network();
  const Format format;
  State source = fresh(graph, format, 7), state = fresh(graph, format, 7);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].storage != Storage::kReal) continue;
    source.data<double>(source.layout().parameters[i].mantissa)[0] = 0.1 * static_cast<double>(i);
  }
  EXPECT_NE(state.sha256(StateGroup::kStatistics), source.sha256(StateGroup::kStatistics));
  ASSERT_TRUE(take_named_parameters(graph, format, named_parameters(graph, source), state).ok());
  EXPECT_EQ(state.sha256(StateGroup::kStatistics), source.sha256(StateGroup::kStatistics));
}

// From each format to each other one, a weight moves by at most a unit of the new grid. The largest
// weight is cut by nearly that; others move by half a unit.
TEST(NamedParameters, OfOtherGridsAreRounded) {
  constexpr const char* kName = "stage2.block1.conv1.weights";
  const Graph graph = network();
  const char* const formats[] = {"bfp8",      "bfp:w=4", "bfp:w=12", "bfp:block=channel",
                                 "bfp:acc=0", "dfp8",    "fp32"};
  for (const char* from : formats) {
    const State source = fresh(graph, format_of(from), 7);
    for (const char* to : formats) {
      const Format format = format_of(to);
      State state = fresh(graph, format, 8);
      const auto taken =
          take_named_parameters(graph, format, named_parameters(graph, source), state);
      ASSERT_TRUE(taken.ok()) << taken.error().message;
      // Initial weights are at most sqrt(6 / 144) = 0.204 < 2^-2.
      const int bits = format.is_float() ? 20 : format.weight_bits;
      const double unit = std::ldexp(1, -2 - (bits - 1)) * (bits < 8 ? 2 : 1);
      for (int64_t i = 0; i < 32 * 9 * 16; ++i) {
        const StateElement was = element(graph, source, kName, i), is = element(graph, state, kName, i);
        // A weight that is copied may have its waiting part rounded away.
        const double wanted =
            std::abs(is.seen - was.seen) < std::abs(is.seen - was.whole) ? was.seen : was.whole;
        ASSERT_LE(std::abs(is.seen - wanted), unit) << from << " to " << to << ", element " << i;
      }
    }
  }
}

TEST(NamedParameters, UntrainedOnesKeepTheirMantissas) {
  Graph graph = network();
  const Format format;
  const State source = fresh(graph, format, 7);
  const auto parameters = named_parameters(graph, source);
  graph.parameters[0].trained = false;
  State state = fresh(graph, format, 8);
  ASSERT_EQ(state.layout().parameters[0].accumulator, -1);
  ASSERT_TRUE(take_named_parameters(graph, format, parameters, state).ok());
  const auto was = source.bytes(source.layout().parameters[0].mantissa);
  const auto is = state.bytes(state.layout().parameters[0].mantissa);
  EXPECT_TRUE(std::equal(was.begin(), was.end(), is.begin(), is.end()));
}

TEST(NamedParameters, ListsTheOthers) {
  const Graph ten = network(10), five = network(5);
  const Format format;
  const State source = fresh(ten, format, 7), untouched = fresh(five, format, 8);
  State state = fresh(five, format, 8);
  const auto taken = take_named_parameters(five, format, named_parameters(ten, source), state);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->initial,
            (std::vector<std::string>{"classifier.weights [5, 64]", "classifier.bias [5]"}));
  EXPECT_EQ(taken->left_over,
            (std::vector<std::string>{"classifier.weights [10, 64]", "classifier.bias [10]"}));
  EXPECT_EQ(to_string(*taken, "a file"),
            "taken: 45 of 47 parameters from a file; initial: classifier.weights [5, 64], "
            "classifier.bias [5]; left over: classifier.weights [10, 64], classifier.bias [10]");
  EXPECT_EQ(element(five, state, "classifier.weights", 3).whole,
            element(five, untouched, "classifier.weights", 3).whole);
  EXPECT_EQ(element(five, state, "stem.weights", 3).whole,
            element(ten, source, "stem.weights", 3).whole);
  // Nothing of the optimiser is taken.
  const int velocity = state.layout().parameters[0].moments[0].mantissa;
  for (const std::byte byte : state.bytes(velocity)) EXPECT_EQ(byte, std::byte{0});
}

TEST(NamedParameters, RefusesNumbersThatNoTrainingWrites) {
  const Graph graph = network(10, "mlp");
  const auto refusal = [&](const char* text, const auto& spoil) {
    const Format format = format_of(text);
    State source = fresh(graph, format, 7), state = fresh(graph, format, 8);
    spoil(source, source.layout().parameters[0]);
    const auto taken = take_named_parameters(graph, format, named_parameters(graph, source), state);
    return taken.ok() ? std::string() : taken.error().message;
  };
  EXPECT_EQ(refusal("bfp8", [](State&, const ParameterState&) {}), "");
  EXPECT_EQ(refusal("bfp8", [](State& s,
                               const ParameterState& p) { s.data<int8_t>(p.mantissa)[5] = -128; }),
            "parameter 'linear1.weights' has a number outside its range");
  EXPECT_EQ(refusal("bfp8",
                    [](State& s, const ParameterState& p) { *s.data<int16_t>(p.exponent) = 128; }),
            "parameter 'linear1.weights' has an exponent outside -128..127");
  EXPECT_EQ(
      refusal("bfp:acc=8",
              [](State& s, const ParameterState& p) { s.data<int16_t>(p.accumulator)[5] = 128; }),
      "parameter 'linear1.weights' has a number outside its range");
  EXPECT_EQ(refusal("fp32",
                    [](State& s, const ParameterState& p) {
                      s.data<float>(p.mantissa)[5] = std::numeric_limits<float>::infinity();
                    }),
            "parameter 'linear1.weights' has a number that is not finite");
}

TEST(NamedParameters, RefusesWhatTheFormatCannotHold) {
  const Graph graph = network(10, "mlp");
  State wide = fresh(graph, format_of("bfp:w=16"), 7);
  const ParameterState& first = wide.layout().parameters[0];
  *wide.data<int16_t>(first.exponent) = kExponentMax;
  std::fill_n(wide.data<int16_t>(first.mantissa), 10, int16_t{32767});
  for (const auto& [text, message] :
       {std::pair{"bfp8", "parameter 'linear1.weights' has a number beyond the format's largest"},
        {"fp32", "parameter 'linear1.weights' has a number beyond fp32"}}) {
    State state = fresh(graph, format_of(text), 8);
    const auto taken =
        take_named_parameters(graph, format_of(text), named_parameters(graph, wide), state);
    ASSERT_FALSE(taken.ok()) << text;
    EXPECT_EQ(taken.error().message, message);
  }
}

}  // namespace
}  // namespace mantissa
