// Every training method begins where post-training quantisation ends. The first forward pass of the
// quantised network has the mantissas that src/quantise defines: for weights, for activations and
// for both, in either order with training in between ([0064], [0144]).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "networks/network.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "quantise/starts.h"
#include "runtime/named_parameters.h"
#include "start/quantise.h"
#include "tests/frozen/quantised.h"
#include "tests/harness.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

struct NamedValue {
  std::vector<int64_t> mantissas;
  int exponent = 0;
  bool operator==(const NamedValue&) const = default;
  double number(size_t i) const { return std::ldexp(static_cast<double>(mantissas[i]), exponent); }
};

// Values of the network on the first pictures, in inference mode.
std::vector<NamedValue> forward(Graph network, State& state, const std::vector<int>& watched) {
  network.outputs = watched;
  const kernels::KernelTable table = kernels::select_kernels(config().isa);
  const auto program = compile(network,
                               {.kind = ProgramKind::kInference,
                                .micro_batch_size = kBatch,
                                .with_loss = false,
                                .exponents = ExponentMode::kCalibrate,
                                .format = config().format},
                               {&table, 2});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  auto arena = AlignedMemory::create(program->arena_bytes);
  ThreadPool pool(2);
  Programs programs(network, state, {pool, arena->span(), config().isa});
  programs.add(*program);
  const RunData data = some_pictures();
  auto batches = OrderedBatches::create(data.train, kBatch);
  EXPECT_TRUE(batches.ok() && programs.infer(batches->next()).ok());
  std::vector<NamedValue> values;
  for (size_t i = 0; i < watched.size(); ++i) {
    const Tensor tensor = programs.outputs(static_cast<int>(i));
    NamedValue& value = values.emplace_back();
    value.exponent = *tensor.exponent;
    for (int64_t at = 0; at < tensor.count(); ++at) {
      value.mantissas.push_back(tensor.type == DataType::kInt8    ? tensor.as<int8_t>()[at]
                                : tensor.type == DataType::kInt16 ? tensor.as<int16_t>()[at]
                                                                  : tensor.as<int32_t>()[at]);
    }
  }
  return values;
}

Result<quantise::MantissaRange> range_of(const QuantiseSettings& settings) {
  return quantise::mantissa_range(settings.bits.all.weights,
                                  settings.has_full_range ? quantise::RangeConvention::kFull
                                                          : quantise::RangeConvention::kSymmetric);
}

// The weights of a layer: the mantissas of post-training quantisation. The method's own formula
// gives the same from its start.
void check_weights(const QuantiseSource& source, Quantised& found, const QuantisedLayer& layer,
                   const QuantiseSettings& settings) {
  const std::string name = source.plan.network.nodes[layer.node].name + ".weights";
  const auto before = named_parameters(source.plan.network, source.state);
  const auto after = named_parameters(found.start.network, found.state);
  const std::vector<double> numbers = real_numbers(named(before, name));
  const auto range = range_of(settings);
  const bool by_channel = layer.any_scale();
  const auto expected =
      quantise::quantise_weights(numbers, {.range = *range,
                                           .parts = by_channel ? named(before, name).shape[0] : 1,
                                           .scale_bits = by_channel ? 53 : 1});
  ASSERT_TRUE(expected.ok());
  const std::vector<int> mantissas = mantissas_of(named(after, name));
  ASSERT_EQ(mantissas, std::vector<int>(expected->mantissas.begin(), expected->mantissas.end()))
      << name;
  const size_t length = numbers.size() / expected->scales.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto form =
        quantise::weight_form(settings.training, *range, expected->scales[i / length]);
    ASSERT_EQ(form.mantissa(quantise::latent_weight(form, mantissas[i])), mantissas[i]);
    ASSERT_EQ(form.mantissa(quantise::latent_weight(form, mantissas[i], numbers[i])), mantissas[i]);
  }
}

// The input of a layer: the input of its `quantise` node, quantised by the definition.
void check_activations(Quantised& found, const LayerOutcome& layer) {
  const Graph& network = found.start.network;
  const auto node = std::find_if(network.nodes.begin(), network.nodes.end(), [&](const Node& n) {
    return n.name == quantise_node_name(layer.name);
  });
  ASSERT_NE(node, network.nodes.end());
  const auto values = forward(network, found.state, {node->inputs[0], node->outputs[0]});
  const auto range =
      quantise::mantissa_range(3, layer.is_signed ? quantise::RangeConvention::kSymmetric
                                                  : quantise::RangeConvention::kUnsigned);
  const quantise::LinearGrid grid{layer.range / static_cast<double>(range->hi), layer.offset,
                                  *range};
  const auto begin = static_cast<int64_t>(std::nearbyint(layer.offset / grid.scale));
  for (size_t i = 0; i < values[0].mantissas.size(); ++i) {
    ASSERT_EQ(values[1].mantissas[i], grid.mantissa(values[0].number(i)) + begin) << layer.name;
  }
}

void check_first_pass(const QuantiseSource& source, Quantised& found,
                      const QuantiseSettings& settings) {
  for (size_t i = 0; i < found.layers.size(); ++i) {
    if (!settings.bits.only_activations) check_weights(source, found, found.layers[i], settings);
    if (!settings.bits.only_weights) check_activations(found, found.start.layers[i]);
  }
}

std::vector<NamedValue> outputs(Quantised& found) {
  return forward(found.start.network, found.state, found.start.network.outputs);
}

QuantiseSettings on_the_grid_with(QuantiseSettings settings) {
  settings.starts_between = false;
  return settings;
}

TEST(QuantisedStart, TheFirstPassIsThatOfPostTrainingQuantisation) {
  for (const char* const model : kModels) {
    Harness harness = trained_harness(model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    for (const Sides sides : kAllSides) {
      // Key: whether ranges have offsets, since the input of the network has negative numbers.
      std::map<bool, std::vector<NamedValue>> expected;
      for (const auto& [name, method] : kMethods) {
        SCOPED_TRACE(std::string(model) + ", " + name + ", sides " +
                     std::to_string(static_cast<int>(sides)));
        const QuantiseSettings settings = settings_of(method, sides);
        Quantised found = quantised(source, settings);
        check_first_pass(source, found, settings);
        // All methods compute the same, wherever weights start between the points of the grid.
        const bool has_offset = found.start.layers[0].offset != 0;
        EXPECT_EQ(has_offset,
                  sides != Sides::kWeights && quantise::trained_values(method).activation_offset);
        if (expected[has_offset].empty()) {
          Quantised on_the_grid = quantised(source, on_the_grid_with(settings));
          expected[has_offset] = outputs(on_the_grid);
        }
        EXPECT_EQ(outputs(found), expected[has_offset]);
      }
    }
  }
}

// Other whole numbers than -3 to 3: -4 to 3, {-1, +1} and {-1, 0}.
TEST(QuantisedStart, TheSameWithOneBitAndTheFullRange) {
  for (const char* const model : kModels) {
    Harness harness = trained_harness(model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    for (const auto& [bits, is_full] : {std::pair{3, true}, {1, false}, {1, true}}) {
      std::map<bool, std::vector<NamedValue>> expected;  // key: whether ranges have offsets
      for (const auto& [name, method] : kMethods) {
        SCOPED_TRACE(std::string(model) + ", " + name + ", bits " + std::to_string(bits) +
                     (is_full ? ", full" : ""));
        QuantiseSettings settings = settings_of(method, Sides::kBoth, {bits, 3});
        settings.has_full_range = is_full;
        Quantised found = quantised(source, settings);
        check_first_pass(source, found, settings);
        std::vector<NamedValue>& same = expected[found.start.layers[0].offset != 0];
        if (same.empty()) {
          Quantised on_the_grid = quantised(source, on_the_grid_with(settings));
          same = outputs(on_the_grid);
        }
        EXPECT_EQ(outputs(found), same);
      }
    }
  }
}

// The first pass is the same for both starts. They differ in the trained numbers V. On the grid, V
// are the quantised weights, which is the text's start ([0045], [0120]). Between its points, V are
// the weights as they were, and only round to the quantised ones.
TEST(QuantisedStart, OnTheGridTheTrainedNumbersAreTheQuantisedWeights) {
  for (const char* const model : kModels) {
    Harness harness = trained_harness(model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    for (const auto& [name, method] : kMethods) {
      SCOPED_TRACE(std::string(model) + ", " + name);
      const QuantiseSettings settings = settings_of(method);
      EXPECT_TRUE(settings.starts_between) << "the default";
      const Quantised between = quantised(source, settings);
      const Quantised on_the_grid = quantised(source, on_the_grid_with(settings));
      const auto of_between = named_parameters(between.start.network, between.state);
      const auto of_grid = named_parameters(on_the_grid.start.network, on_the_grid.state);
      for (const QuantisedLayer& layer : between.layers) {
        const std::string weights = source.plan.network.nodes[layer.node].name + ".weights";
        const NamedParameter& parameter = named(of_grid, weights);
        const int64_t unit = int64_t{1} << parameter.lazy_shift;
        const std::vector<int> mantissas = mantissas_of(parameter);
        EXPECT_EQ(mantissas_of(named(of_between, weights)), mantissas);
        const std::vector<int64_t> values = lazy_values(named(of_between, weights));
        const std::vector<int64_t> on_points = lazy_values(parameter);
        int64_t lie_between = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(on_points[i], mantissas[i] * unit);
          ASSERT_LE(std::abs(values[i] - mantissas[i] * unit), unit / 2);
          lie_between += values[i] % unit != 0;
        }
        EXPECT_GT(lie_between, std::ssize(values) / 2) << weights;
      }
    }
  }
}

// A run with w=16 has 16 bits that compute and 15 that wait: fixed point of 32 bits ([0113]). All
// of them tell where a weight lies.
TEST(QuantisedStart, ReadsAllBitsOfFixedPoint) {
  Harness harness({.model = "lenet5", .format = "bfp:w=16", .batch_size = kBatch});
  harness.train(5);
  QuantiseSource source = source_of(harness);
  source.trained.parameters = named_parameters(harness.graph(), harness.state());
  const Quantised found =
      quantised(source, settings_of(TrainingMethod::kLsq, Sides::kWeights, {7, 7}));
  const std::string name = "conv2.weights";
  const NamedParameter& fixed = named(source.trained.parameters, name);
  ASSERT_EQ(fixed.type, DataType::kInt16);
  const std::vector<double> numbers = real_numbers(fixed);
  const auto range = range_of(settings_of(TrainingMethod::kLsq, Sides::kWeights, {7, 7}));
  const auto quantised_weights = quantise::quantise_weights(
      numbers, {.range = *range, .parts = fixed.shape[0], .scale_bits = 53});
  ASSERT_TRUE(quantised_weights.ok());
  const auto after = named_parameters(found.start.network, found.state);
  const std::vector<int64_t> values = lazy_values(named(after, name));
  const size_t length = numbers.size() / quantised_weights->scales.size();
  const double unit_of_16_bits =
      std::ldexp(1.0, *reinterpret_cast<const int16_t*>(fixed.exponents.data()));
  int64_t finer = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double step = quantised_weights->scales[i / length];
    const double place = std::ldexp(numbers[i] / step, 15);
    const double end = std::ldexp(static_cast<double>(range->hi), 15);
    // A float on the way holds 24 bits.
    EXPECT_NEAR(static_cast<double>(values[i]), std::clamp(place, -end, end), 2);
    const double rounded = std::nearbyint(numbers[i] / unit_of_16_bits) * unit_of_16_bits;
    finer += std::abs(std::ldexp(rounded / step, 15) - place) > 4;
  }
  EXPECT_GT(finer, std::ssize(numbers) / 4);
}

double largest(const NamedValue& value) {
  double most = 0;
  for (size_t i = 0; i < value.mantissas.size(); ++i) {
    most = std::max(most, std::abs(value.number(i)));
  }
  return most;
}

std::vector<int> means_of(const Graph& network) {
  for (const Node& node : network.nodes) {
    if (node.op != &ops::kNormaliseInput) continue;
    const WholeList& means = node.attributes.as<ops::InputAttributes>().means;
    return {means.begin(), means.end()};
  }
  return {};
}

TEST(QuantisedStart, NumbersStayTheSameWhateverTheScales) {
  for (const char* const model : kModels) {
    SCOPED_TRACE(model);
    Harness harness = trained_harness(model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    const NamedValue before = forward(harness.graph(), source.state, harness.graph().outputs)[0];
    for (const Sides sides : kAllSides) {
      Quantised found = quantised(source, settings_of(TrainingMethod::kLsq, sides, {7, 7}));
      fill_means(means_of(harness.graph()), found.start.network);
      const NamedValue after = outputs(found)[0];
      double squares = 0;
      for (size_t i = 0; i < after.mantissas.size(); ++i) {
        squares += std::pow(after.number(i) - before.number(i), 2);
      }
      EXPECT_LT(std::sqrt(squares / static_cast<double>(after.mantissas.size())),
                0.05 * largest(before));
    }
  }
}

// One side, training, then the other side. The side that was quantised first stays. The second side
// is quantised like any network after training, by post-training quantisation.
TEST(QuantisedStart, SidesInTurnWithTrainingBetween) {
  for (const char* const model : kModels) {
    Harness harness = trained_harness(model);
    harness.train(10);
    QuantiseSource source = source_of(harness);
    for (const auto& [name, method] : kMethods) {
      for (const Sides first : {Sides::kWeights, Sides::kActivations}) {
        SCOPED_TRACE(std::string(model) + ", " + name + ", first " +
                     std::to_string(static_cast<int>(first)));
        const Quantised begun = quantised(source, settings_of(method, first));
        Harness between(harness.options(), begun.start.network);
        const auto start = take_named_parameters(between.graph(), config().format,
                                                 begun.start.parameters, between.state());
        ASSERT_TRUE(start.ok() && start->initial.empty());
        const std::string untrained = between.weights_sha256();
        between.train(3);
        EXPECT_NE(between.weights_sha256(), untrained);
        QuantiseSource trained = source_of(between);
        const Sides second = first == Sides::kWeights ? Sides::kActivations : Sides::kWeights;
        Quantised found = quantised(trained, settings_of(method, second));
        check_first_pass(trained, found, settings_of(method, second));
        const auto before = named_parameters(between.graph(), between.state());
        const auto after = named_parameters(found.start.network, found.state);
        for (const NamedParameter& parameter : before) {
          const bool is_first = first == Sides::kWeights ? parameter.name.ends_with(".weights")
                                                         : parameter.name.ends_with(".range");
          if (!is_first) continue;
          EXPECT_EQ(real_numbers(named(after, parameter.name)), real_numbers(parameter))
              << parameter.name;
        }
      }
    }
  }
}

// The trained scale of a rescale gets another name if the range of the layer's input joins it.
TEST(QuantisedStart, ScalesKeepTheirRatesUnderOtherNames) {
  Harness harness = trained_harness("lenet5");
  harness.train(2);
  QuantiseSource source = source_of(harness);
  Quantised begun = quantised(source, settings_of(TrainingMethod::kLsq, Sides::kWeights));
  Harness between(harness.options(), begun.start.network);
  ASSERT_TRUE(take_named_parameters(between.graph(), config().format, begun.start.parameters,
                                    between.state())
                  .ok());
  QuantiseSource trained = source_of(between);
  const Quantised found =
      quantised(trained, settings_of(TrainingMethod::kLsq, Sides::kActivations));
  const std::string before = ".rescale.scale", after = ".input.scale";
  int renamed = 0;
  for (const Parameter& parameter : begun.start.network.parameters) {
    if (!parameter.name.ends_with(before)) continue;
    const std::string layer = parameter.name.substr(0, parameter.name.size() - before.size());
    const Parameter& now = parameter_named(found.start.network, layer + after);
    EXPECT_NE(parameter.rate_factor, 1);
    EXPECT_EQ(now.rate_factor, parameter.rate_factor) << layer;
    ++renamed;
  }
  EXPECT_GT(renamed, 1);
}

int index_of(const Graph& network, const std::string& name) {
  return static_cast<int>(&parameter_named(network, name) - network.parameters.data());
}

// Sets the first filter of the weights to zeros.
void clear_filter(QuantiseSource& source, const std::string& name) {
  const int index = index_of(source.plan.network, name);
  const ParameterState& tensors = source.state.layout().parameters[index];
  const Shape& shape = source.plan.network.parameters[index].shape;
  const int64_t length = shape.count() / shape[0];
  std::fill_n(source.state.data<int8_t>(tensors.mantissa), length, int8_t{0});
  std::fill_n(source.state.data<int16_t>(tensors.accumulator), length, int16_t{0});
}

// Filters of zeros decide neither the exponent of a layer nor, by much, its rate.
TEST(QuantisedStart, FiltersOfZerosDecideNothing) {
  constexpr const char* kLayer = "stage2.block1.conv1";
  Harness harness = trained_harness("resnet8");
  harness.train(10);
  QuantiseSource source = source_of(harness);
  const Quantised whole = quantised(source, settings_of(TrainingMethod::kLsq, Sides::kWeights));
  clear_filter(source, std::string(kLayer) + ".weights");
  const Quantised found = quantised(source, settings_of(TrainingMethod::kLsq, Sides::kWeights));
  const auto exponent_of = [&](const Graph& network) {
    const auto node = std::find_if(network.nodes.begin(), network.nodes.end(),
                                   [&](const Node& n) { return n.name == kLayer; });
    return node->attributes.as<ops::LayerAttributes>().weight_exponent;
  };
  EXPECT_EQ(exponent_of(found.start.network), exponent_of(whole.start.network));
  const auto rate_of = [&](const Graph& network) {
    return parameter_named(network, std::string(kLayer) + ".weights").rate_factor;
  };
  EXPECT_NEAR(rate_of(found.start.network), rate_of(whole.start.network),
              0.2 * rate_of(whole.start.network));
}

// A channel whose variance is small beside epsilon stays as quiet as it was: its running variance
// is the trained one over factor^2, and the scale follows.
TEST(QuantisedStart, QuietChannelsStayQuiet) {
  constexpr double kEpsilon = 1e-5, kVariance = 1e-8;
  Harness harness = trained_harness("resnet8");
  harness.train(10);
  QuantiseSource source = source_of(harness);
  const std::string norm = "stage2.block1.norm1";
  const int index = index_of(source.plan.network, norm + ".running_variance");
  *source.state.data<double>(source.state.layout().parameters[index].mantissa) = kVariance;
  const Quantised found = quantised(source, settings_of(TrainingMethod::kLsq, Sides::kWeights));
  const auto before = named_parameters(source.plan.network, source.state);
  const auto first = [&](const std::vector<NamedParameter>& parameters, const char* own) {
    return real_numbers(named(parameters, norm + own))[0];
  };
  const double variance = first(found.start.parameters, ".running_variance");
  EXPECT_GT(variance, 0);
  EXPECT_NEAR(first(found.start.parameters, ".scale") * std::sqrt(variance / (variance + kEpsilon)),
              first(before, ".scale") * std::sqrt(kVariance / (kVariance + kEpsilon)),
              1e-3 * first(before, ".scale"));
}

// Two layers share one bias, and have batch norms of their own: ranges are powers of two.
TEST(QuantisedStart, SharedBiasesAreNotDivided) {
  Layers net("shared", fashion_options());
  net.convolution("first", 8, 5, 2, 2, true);
  const int image = net.relu("relu");
  const Attributes same = {{"channels", 8}, {"kernel", 3}, {"padding", 1}};
  const int path = net.add(ops::kConvolution, "path1", same);
  const int left = net.batch_norm("norm1");
  net.continue_from(image);
  net.add_sharing(path, ops::kConvolution, "path2", same);
  net.sum("add", left, net.batch_norm("norm2"));
  net.add(ops::kFlatten, "flatten");
  const Graph graph = finished(net);
  QuantisedBits bits;
  bits.all = {8, 4};
  bits.ends = 0;
  const auto layers = quantised_layers(graph, bits);
  ASSERT_TRUE(layers.ok());
  for (const QuantisedLayer& layer : *layers) {
    const std::string& name = graph.nodes[layer.node].name;
    if (name == "first") {
      EXPECT_TRUE(layer.any_scale());
    } else {
      EXPECT_FALSE(layer.any_scale()) << name;  // path1, path2 and the network's result
    }
  }
}

// If one side of a network is in float, --bits are the bits of the other side.
TEST(QuantisedStart, PatternsLeaveFloatsAlone) {
  Harness harness = trained_harness("lenet5");
  QuantisedBits bits;
  bits.all = {4, kFloatBits};
  bits.patterns = {{"conv2", 3}};
  const auto layers = quantised_layers(harness.graph(), bits);
  ASSERT_TRUE(layers.ok());
  for (const QuantisedLayer& layer : *layers) {
    EXPECT_GE(layer.bits.activations, kWholeBits);
    const bool fits = harness.graph().nodes[layer.node].name == "conv2";
    EXPECT_EQ(layer.bits.weights == 3, fits);
  }
}

}  // namespace
}  // namespace mantissa::testing
