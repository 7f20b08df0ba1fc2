#include "start/quantise_weights.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "quantise/weights/adaround.h"
#include "quantise/weights/weights.h"

namespace mantissa {
namespace {

using Numbers = std::vector<double>;

template <typename T>
bool is_zero(std::span<const T> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](T number) { return number == 0; });
}

// The scales of quantised weights. `by_channel`: else there is one for all.
WeightScales weight_scales(const Numbers& weights, const quantise::QuantisedWeights& quantised,
                           const quantise::MantissaRange& range, int64_t channels,
                           bool by_channel) {
  WeightScales scales{.factors = Numbers(static_cast<size_t>(channels), 1)};
  const int64_t length = std::ssize(weights) / channels;
  const auto has_scale = [&](int64_t c) {
    if (is_zero(std::span(weights).subspan(c * length, length))) return false;
    // On {-1, 0} a channel with only positive weights has no scale either.
    return range.hi > 0 || !is_zero(std::span(quantised.mantissas).subspan(c * length, length));
  };
  // Channels without their own scale do not count.
  double sum = 0;
  int64_t count = 0;
  for (int64_t c = 0; c < channels; ++c) {
    if (!has_scale(c)) continue;
    sum += quantised.scales[by_channel ? c : 0];
    ++count;
  }
  scales.exponent = count > 0 ? std::ilogb(sum / static_cast<double>(count)) : 0;
  for (int64_t c = 0; c < channels; ++c) {
    if (has_scale(c)) {
      scales.factors[c] = std::ldexp(quantised.scales[by_channel ? c : 0], -scales.exponent);
    } else if (range.step == 2) {
      scales.factors[c] = 0;
    }
  }
  return scales;
}

double relative_error(double squared_error, const Numbers& numbers) {
  double squares = 0;
  for (const double number : numbers) squares += number * number;
  return squares > 0 ? std::sqrt(squared_error / squares) : 0;
}

double squared_error(const Numbers& weights, const quantise::QuantisedWeights& quantised) {
  const int64_t length = std::ssize(weights) / std::ssize(quantised.scales);
  double error = 0;
  for (int64_t part = 0; part < std::ssize(quantised.scales); ++part) {
    error += quantise::squared_error(std::span(weights).subspan(part * length, length),
                                     quantised.scales[part],
                                     std::span(quantised.mantissas).subspan(part * length, length));
  }
  return error;
}

// The start of a weight with this mantissa between the points of the grid: unchanged, within the
// range, and not so close to the next mantissa that V would round to it.
double place_between(double number, double mantissa, const quantise::MantissaRange& range,
                     int lazy_shift) {
  const double step = static_cast<double>(range.step);
  const double half = step / 2 - std::ldexp(0.75, -std::max(1, lazy_shift));
  const double above = mantissa < static_cast<double>(range.hi) ? mantissa + half : mantissa;
  return std::clamp(number, static_cast<double>(range.lo), above);
}

// Rounds weights so that the layer's results on the rows change least. Quantised inputs and weights
// are compared with the original ones.
Status train_rounding(const Numbers& weights, int64_t outputs, const quantise::MantissaRange& range,
                      const RoundingInputs& inputs, quantise::QuantisedWeights& quantised) {
  const int64_t features = std::ssize(weights) / outputs;
  const int64_t rows = std::ssize(inputs.rows) / features;
  std::vector<float> targets(static_cast<size_t>(rows * outputs));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (int64_t f = 0; f < features; ++f) {
        sum += inputs.rows[r * features + f] * weights[o * features + f];
      }
      targets[r * outputs + o] = static_cast<float>(sum);
    }
  }
  std::vector<float> read = inputs.rows;
  if (inputs.grid) {
    for (float& number : read) number = static_cast<float>(inputs.grid->quantised(number));
  }
  MANTISSA_ASSIGN(quantise::RoundedWeights rounded,
                  quantise::round_by_training({.inputs = read,
                                               .targets = targets,
                                               .weights = weights,
                                               .outputs = outputs,
                                               .scales = quantised.scales,
                                               .range = range},
                                              {}));
  quantised.mantissas = std::move(rounded.mantissas);
  return {};
}

}  // namespace

Result<quantise::MantissaRange> weight_range(int bits, const QuantiseSettings& settings) {
  return quantise::mantissa_range(bits, settings.has_full_range
                                            ? quantise::RangeConvention::kFull
                                            : quantise::RangeConvention::kSymmetric);
}

Result<WeightScales> quantise_layer_weights(const std::string& name, int64_t channels,
                                            const QuantisedLayer& layer,
                                            const RoundingInputs& inputs,
                                            const QuantiseSettings& settings, Numbers& weights) {
  MANTISSA_ASSIGN(const quantise::MantissaRange range, weight_range(layer.bits.weights, settings));
  const bool by_channel = settings.scales_per_channel && layer.any_scale();
  auto quantised = quantise::quantise_weights(weights, {.method = settings.weight_method,
                                                        .range = range,
                                                        .parts = by_channel ? channels : 1,
                                                        .scale_bits = layer.any_scale() ? 53 : 1});
  if (!quantised.ok()) return invalid_input(name + ": " + quantised.error().message);
  const bool trains = settings.trains_rounding && !inputs.rows.empty();
  if (trains) {
    MANTISSA_RETURN_IF_ERROR(train_rounding(weights, channels, range, inputs, *quantised));
  }
  WeightScales scales = weight_scales(weights, *quantised, range, channels, by_channel);
  scales.error = relative_error(squared_error(weights, *quantised), weights);
  const int64_t length = std::ssize(weights) / channels;
  for (int64_t i = 0; i < std::ssize(weights); ++i) {
    double place = quantised->mantissas[i];
    const double factor = scales.factors[i / length];
    if (settings.starts_between && !trains && factor > 0) {
      place = place_between(std::ldexp(weights[i] / factor, -scales.exponent), place, range,
                            inputs.lazy_shift);
    }
    weights[i] = std::ldexp(place, scales.exponent);
  }
  return scales;
}

}  // namespace mantissa
