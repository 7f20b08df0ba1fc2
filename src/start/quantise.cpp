#include "start/quantise.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/files/atomic_file.h"
#include "base/sizes.h"
#include "models/json/network_json.h"
#include "networks/network.h"
#include "onnx/export/quantise_scale.h"
#include "ops/norms/batch_norm.h"
#include "start/quantise_weights.h"

namespace mantissa {
namespace {

using Numbers = std::vector<double>;

// Parameters by name, which layers replace.
class Parameters {
 public:
  Parameters(const Graph& graph, const State& state, const TrainedFile& trained)
      : parameters_(named_parameters(graph, state)) {
    // Mantissas and accumulators as they were trained, if the network takes them.
    for (NamedParameter& parameter : parameters_) {
      for (const NamedParameter& from : trained.parameters) {
        const bool is_float = parameter.type == DataType::kDouble;
        const bool same_kind = (from.type == DataType::kDouble) == is_float;
        if (from.name == parameter.name && from.shape == parameter.shape && same_kind) {
          parameter = from;
        }
      }
    }
  }

  Numbers numbers(const std::string& name) const { return real_numbers(*find(name)); }
  bool has(const std::string& name) const {
    return std::any_of(parameters_.begin(), parameters_.end(),
                       [&](const NamedParameter& p) { return p.name == name; });
  }

  void set(const std::string& name, const Shape& shape, const Numbers& numbers, bool statistic) {
    std::vector<std::byte>& bytes = bytes_.emplace_back();
    const auto write = [&](auto type) {
      using T = decltype(type);
      bytes.resize(numbers.size() * sizeof(T));
      for (size_t i = 0; i < numbers.size(); ++i) {
        const T number = static_cast<T>(numbers[i]);
        std::memcpy(bytes.data() + i * sizeof(T), &number, sizeof number);
      }
    };
    statistic ? write(double{}) : write(float{});
    NamedParameter replaced{.name = name,
                            .type = statistic ? DataType::kDouble : DataType::kFloat,
                            .shape = shape,
                            .numbers = bytes};
    const auto found = find(name);
    found == parameters_.end() ? void(parameters_.push_back(std::move(replaced)))
                               : void(*found = std::move(replaced));
  }
  void replace(const std::string& name, const Numbers& numbers) {
    const auto found = find(name);
    set(name, found->shape, numbers, found->type == DataType::kDouble);
  }

  // Its numbers; the parameter, which is there, is gone.
  Numbers take(const std::string& name) {
    const auto found = find(name);
    assert(found != parameters_.end());
    Numbers numbers = real_numbers(*found);
    parameters_.erase(found);
    return numbers;
  }

  // Copies the data that point into the state and the file.
  void move_to(QuantisedStart& start) {
    for (NamedParameter& parameter : parameters_) {
      for (auto* part : {&parameter.numbers, &parameter.exponents, &parameter.accumulator}) {
        if (part->empty()) continue;
        start.bytes.emplace_back(part->begin(), part->end());
        *part = start.bytes.back();
      }
    }
    start.parameters = std::move(parameters_);
  }

 private:
  std::vector<NamedParameter>::iterator find(const std::string& name) {
    return std::find_if(parameters_.begin(), parameters_.end(),
                        [&](const NamedParameter& p) { return p.name == name; });
  }
  std::vector<NamedParameter>::const_iterator find(const std::string& name) const {
    return std::find_if(parameters_.begin(), parameters_.end(),
                        [&](const NamedParameter& p) { return p.name == name; });
  }

  std::vector<NamedParameter> parameters_;
  std::vector<std::vector<std::byte>> bytes_;
};

double relative_error(double squared_error, const quantise::ActivationStatistics& statistics) {
  double squares = 0;
  for (const auto& cell : statistics.cells()) {
    squares += cell.value * cell.value * static_cast<double>(cell.count);
  }
  return squares > 0 ? std::sqrt(squared_error / squares) : 0;
}

// If some number is negative, the grid is symmetric, or has an offset if the method trains one.
// Then the range begins at a whole step, and reaches zero. Steps are powers of two if no batch norm
// and no rescale follow.
Result<quantise::LinearGrid> activation_grid(const std::string& name, const QuantisedLayer& layer,
                                             const QuantiseSettings& settings,
                                             const quantise::ActivationStatistics& statistics) {
  const bool has_offset = quantise::trained_values(settings.training).activation_offset;
  const bool is_signed = statistics.minimum() < 0 && !has_offset;
  if (is_signed && layer.bits.activations == 1) {
    return invalid_input(name +
                         ": its input has negative numbers, for which 1 bit has no place; 2 "
                         "to 8 are possible: --bits " +
                         name + "=2");
  }
  auto grid = quantise::fit_activations(
      statistics, {.method = settings.activation_method,
                   .bits = layer.bits.activations,
                   .convention = is_signed ? quantise::RangeConvention::kSymmetric
                                           : quantise::RangeConvention::kUnsigned,
                   .scale_bits = layer.any_scale() ? 24 : 1,
                   .whole_offset = true});
  if (!grid.ok()) return invalid_input(name + ": " + grid.error().message);
  grid->offset = std::max(grid->offset, -grid->beta());
  // ONNX Runtime quantises by a float32 scale: the range is the nearest that has one.
  const auto levels = static_cast<double>(grid->range.hi);
  const double range = grid->scale * levels;
  const double exported = onnx::range_with_scales(range, layer.bits.activations, is_signed);
  if (exported != range) {
    grid->offset *= exported / range;
    grid->scale = exported / levels;
  }
  return grid;
}

// The exponent of the largest power of two that is at most `scale`.
int exponent_below(double scale) { return std::ilogb(scale); }

// The layer's result is the trained one divided by factors[c]. Its bias, and the statistics of the
// batch norm after it, follow. The norm adds epsilon to a variance that is 1/factor^2 of the
// trained one. If epsilon matters, the norm's scale is changed so that the result stays the same.
// Otherwise a filter that is small beside epsilon, and so hardly heard, would become as loud as the
// others.
void divide_result(const Graph& network, const QuantisedLayer& layer, const Numbers& factors,
                   Parameters& parameters) {
  const std::string bias = network.nodes[layer.node].name + ".bias";
  Numbers biases;
  if (parameters.has(bias)) biases = parameters.numbers(bias);
  const auto bias_of = [&](size_t c) { return biases.empty() ? 0 : biases[c]; };
  const std::string norm = network.nodes[layer.norm].name;
  Numbers means = parameters.numbers(norm + ".running_mean");
  Numbers variances = parameters.numbers(norm + ".running_variance");
  Numbers scales = parameters.numbers(norm + ".scale");
  Numbers offsets = parameters.numbers(norm + ".offset");
  constexpr double kEpsilon = ops::kBatchNormEpsilon, kMatters = 0x1p-4;
  bool scales_change = false, offsets_change = false;
  for (size_t c = 0; c < means.size(); ++c) {
    if (factors[c] == 0) {
      // The norm's result for a constant is its offset now.
      offsets[c] -= scales[c] * (means[c] - bias_of(c)) / std::sqrt(variances[c] + kEpsilon);
      scales[c] = 0;
      scales_change = offsets_change = true;
      continue;
    }
    means[c] /= factors[c];
    const double square = factors[c] * factors[c], sum = variances[c] + kEpsilon;
    const double change = std::sqrt((variances[c] + kEpsilon * square) / sum);
    if (std::abs(change - 1) < kMatters) {
      variances[c] = std::max(0.0, sum / square - kEpsilon);
    } else {
      variances[c] /= square;
      scales[c] *= change;
      scales_change = true;
    }
  }
  if (scales_change) parameters.replace(norm + ".scale", scales);
  if (offsets_change) parameters.replace(norm + ".offset", offsets);
  for (size_t c = 0; c < biases.size(); ++c)
    biases[c] = factors[c] == 0 ? 0 : biases[c] / factors[c];
  if (!biases.empty()) parameters.replace(bias, biases);
  parameters.replace(norm + ".running_mean", means);
  parameters.replace(norm + ".running_variance", variances);
}

// The rescale after the layer multiplies by factors[c], and has the layer's bias.
void move_to_rescale(const Graph& network, const QuantisedLayer& layer, const Numbers& factors,
                     quantise::TrainingMethod training, Parameters& parameters) {
  Numbers scales = factors, biases(factors.size(), 0);
  const std::string owner = rescale_owner(network, layer, training);
  const std::string bias = network.nodes[layer.node].name + ".bias";
  if (layer.rescale >= 0) {
    const std::string before = rescale_owner_before(network, layer);
    const Numbers old = parameters.take(before + ".scale");
    for (size_t c = 0; c < scales.size(); ++c) scales[c] *= old[c];
    biases = parameters.take(before + ".bias");
  } else if (parameters.has(bias)) {
    biases = parameters.take(bias);
  }
  const Shape shape{std::ssize(factors)};
  parameters.set(owner + ".scale", shape, scales, false);
  parameters.set(owner + ".bias", shape, biases, false);
}

// LSQ divides the gradient of a weight's step, g (q - v), by the root of (numbers that share it *
// levels). A scale is that step over 2^exponent, and its gradient is g q. It is larger by the ratio
// of the rms of q and of q - v: about 2 levels.
double scale_rate_factor_of(const Shape& weights, const quantise::MantissaRange& range,
                            int exponent) {
  const auto shared = static_cast<double>(weights.count() / weights[0]);
  const auto levels = static_cast<double>(range.reach());
  const double factor = 1 / (std::sqrt(shared * levels) * 2 * levels);
  return std::clamp(std::ldexp(factor, -2 * exponent), 0.001, 1000.0);
}

bool divides_gradients(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

// The rate at which the numbers of a grid learn as the trained numbers would. They are the trained
// numbers divided by factors: a step is divided once, and the gradient multiplied once.
double rate_factor_of(const Numbers& factors) {
  double squares = 0;
  for (const double factor : factors) squares += factor * factor;
  constexpr double kMost = 1000;  // of networks as JSON
  return std::clamp(static_cast<double>(factors.size()) / squares, 1 / kMost, kMost);
}

// The grid of a layer's input, if it has few bits.
Result<std::optional<quantise::LinearGrid>> input_grid(
    const std::string& name, const QuantisedLayer& layer,
    const quantise::ActivationStatistics& statistics, const QuantiseSettings& settings) {
  if (layer.bits.activations >= kWholeBits) return std::optional<quantise::LinearGrid>();
  MANTISSA_ASSIGN(const quantise::LinearGrid grid,
                  activation_grid(name, layer, settings, statistics));
  return std::optional(grid);
}

Result<LayerGrids> quantise_layer(const Graph& network, const QuantisedLayer& layer,
                                  const LayerInputs& inputs, int lazy_shift,
                                  const QuantiseSettings& settings, Parameters& parameters,
                                  LayerOutcome& outcome) {
  const Node& node = network.nodes[layer.node];
  outcome.name = node.name;
  outcome.bits = {std::min(layer.bits.weights, layer.kept.weights),
                  std::min(layer.bits.activations, layer.kept.activations)};
  outcome.any_scale = layer.any_scale();
  LayerGrids grids;
  MANTISSA_ASSIGN(const std::optional<quantise::LinearGrid> found,
                  input_grid(node.name, layer, inputs.statistics, settings));
  const Shape& shape = network.parameters[node.parameters[0]].shape;
  WeightScales weights{.factors = Numbers(static_cast<size_t>(shape[0]), 1)};
  if (layer.bits.weights < kWholeBits) {
    Numbers numbers = parameters.numbers(node.name + ".weights");
    MANTISSA_ASSIGN(weights,
                    quantise_layer_weights(node.name, shape[0], layer,
                                           {inputs.rows, found, lazy_shift}, settings, numbers));
    parameters.replace(node.name + ".weights", numbers);
    outcome.weight_error = weights.error;
  }
  grids.weight_exponent = weights.exponent;
  grids.weight_rate_factor = rate_factor_of(weights.factors);
  if (layer.bits.weights < kWholeBits) {
    grids.has_full_range = settings.has_full_range;
    MANTISSA_ASSIGN(const quantise::MantissaRange range,
                    weight_range(layer.bits.weights, settings));
    grids.scale_rate_factor = scale_rate_factor_of(shape, range, weights.exponent);
  }
  Numbers factors = weights.factors;
  if (found) {
    const auto levels = static_cast<double>(found->range.hi);
    grids.is_signed = outcome.is_signed = found->range.lo < 0;
    grids.activation_exponent = exponent_below(found->scale);
    grids.has_offset = found->offset < 0;
    outcome.range = found->scale * levels;
    outcome.offset = found->offset;
    outcome.activation_error =
        relative_error(quantise::squared_error(inputs.statistics, *found), inputs.statistics);
    for (double& factor : factors) {
      factor *= std::ldexp(found->scale, -grids.activation_exponent);
    }
    // LSQ divides the gradient of a step by the root of the numbers that share it times the levels.
    const auto features = static_cast<double>(network.values[node.inputs[0]].shape.count());
    grids.range_rate_factor = std::clamp(levels * std::sqrt(levels / features), 0.001, 1000.0);
    parameters.set(quantise_node_name(node.name) + ".range", Shape{1}, {outcome.range}, false);
    if (grids.has_offset) {
      parameters.set(quantise_node_name(node.name) + ".offset", Shape{1}, {outcome.offset}, false);
    }
  }
  const bool changed = layer.has_few_bits();
  if (layer.norm >= 0 && changed) divide_result(network, layer, factors, parameters);
  if (layer.rescales && changed) {
    move_to_rescale(network, layer, tracks_range(settings.training) ? weights.factors : factors,
                    settings.training, parameters);
  }
  return grids;
}

std::string memory_line(const MemoryPlan& plan) {
  std::string parts;
  for (const MemoryItem& item : plan.items) {
    if (item.bytes > 0)
      parts += (parts.empty() ? "" : ", ") + item.name + " " + format_bytes(item.bytes);
  }
  return "quantised with " + format_bytes(plan.peak_bytes()) + " of memory planned: " + parts;
}

// Floats are for one side, while the other has few bits: with few on both sides integers compute
// the same.
Status check_format(const RunConfig& config, const QuantisedBits& bits) {
  if (bits.all.weights == kFloatBits && bits.all.activations == kFloatBits) {
    return invalid_input("weights and activations of 32 bits leave nothing to quantise");
  }
  if (config.format.has_row_exponents()) {
    return invalid_input("format: " + to_string(config.format) +
                         ": few bits want values with one exponent, not one for each token; "
                         "blocks=tensor has that");
  }
  const bool few_weights = bits.all.weights < kWholeBits && !bits.only_activations;
  const bool few_activations = bits.all.activations < kWholeBits && !bits.only_weights;
  if (!config.format.is_float() || few_weights != few_activations) return {};
  return invalid_input(
      "format: " + to_string(config.format) +
      ": networks with few bits on both sides compute in integers, as bfp8 and dfp8 "
      "do; fp32 is for few bits on one side: --weights 4 --activations 32");
}

std::string layers_text(int64_t count) {
  return std::to_string(count) + (count == 1 ? " layer" : " layers");
}

// Empty if no layer has few bits already.
std::string kept_bits_text(const std::vector<QuantisedLayer>& layers) {
  const auto count = std::count_if(layers.begin(), layers.end(), [](const QuantisedLayer& layer) {
    return layer.kept.weights < kWholeBits || layer.kept.activations < kWholeBits;
  });
  if (count == 0) return "";
  return layers_text(count) +
         " keep the few bits that they have: to change them, quantise the network that these were "
         "made of";
}

std::string offsets_text(const std::vector<LayerOutcome>& layers) {
  const auto count = std::count_if(layers.begin(), layers.end(),
                                   [](const LayerOutcome& layer) { return layer.offset != 0; });
  if (count == 0) return "";
  return "the ranges of " + layers_text(count) + " begin below zero and are trained";
}

}  // namespace

Result<QuantisedStart> quantise_network(const RunConfig& config, const QuantiseSettings& settings,
                                        const TrainObserver& observer) {
  MANTISSA_RETURN_IF_ERROR(check_format(config, settings.bits));
  if (config.format.is_float()) {
    tell_message(observer, "computed in float: the side of 32 bits is not quantised");
  }
  MANTISSA_ASSIGN(QuantiseSource source, load_source(config, observer));
  MANTISSA_ASSIGN(const std::vector<QuantisedLayer> layers,
                  quantised_layers(source.plan.network, settings.bits));
  MANTISSA_ASSIGN(const std::vector<LayerInputs> inputs,
                  layer_inputs(source, layers, input_settings(settings)));
  MANTISSA_ASSIGN(QuantisedStart start, quantise_network(source, layers, inputs, settings));
  tell_message(observer, kept_bits_text(layers));
  tell_message(observer, offsets_text(start.layers));
  start.memory = std::move(source.memory);
  if (!start.memory.items.empty()) tell_message(observer, memory_line(start.memory));
  return start;
}

InputSettings input_settings(const QuantiseSettings& settings) {
  return {.examples = settings.calibration_examples, .keeps_rows = settings.trains_rounding};
}

Result<QuantisedStart> quantise_network(const QuantiseSource& source,
                                        const std::vector<QuantisedLayer>& layers,
                                        const std::vector<LayerInputs>& inputs,
                                        const QuantiseSettings& settings) {
  const Graph& network = source.plan.network;
  Parameters parameters(network, source.state, source.trained);
  QuantisedStart start;
  start.source = source.trained.source;
  if (source.config.start) {
    start.tokenizer = source.config.start->tokenizer;
    start.learned = source.config.start->learned;
  }
  start.vocabulary = source.config.known_vocabulary;
  std::vector<LayerGrids> grids;
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerOutcome& outcome = start.layers.emplace_back();
    MANTISSA_ASSIGN(LayerGrids row,
                    quantise_layer(network, layers[i], inputs[i], source.state.layout().lazy_shift,
                                   settings, parameters, outcome));
    // Adam divides gradients by their own size.
    if (divides_gradients(source.config.optimizer)) row.scale_rate_factor = 1;
    grids.push_back(row);
  }
  MANTISSA_ASSIGN(start.network, quantised_network(network, layers, grids, settings.training));
  leave_out_means(start.network);
  if (source.config.format.is_float()) {
    for (LayerOutcome& layer : start.layers) {
      for (int* bits : {&layer.bits.weights, &layer.bits.activations}) {
        if (*bits >= kWholeBits) *bits = kFloatBits;
      }
    }
  }
  parameters.move_to(start);
  return start;
}

Status write_quantised(const std::filesystem::path& folder, const QuantisedStart& start,
                       const std::string& settings) {
  MANTISSA_RETURN_IF_ERROR(write_start(folder / kStartFile,
                                       {.source = start.source,
                                        .tokenizer = start.tokenizer,
                                        .vocabulary = start.vocabulary,
                                        .quantised = settings,
                                        .learned = start.learned},
                                       start.parameters));
  return write_text_atomically(folder / kNetworkFile, to_json(start.network));
}

}  // namespace mantissa
