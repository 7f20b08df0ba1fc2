#include "quantise/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "quantise/kullback_leibler.h"
#include "quantise/weights/part.h"
#include "quantise/weights/weight_search.h"

namespace mantissa::quantise {
namespace {

constexpr int kMostScaleBits = std::numeric_limits<double>::digits;

double percentile_scale(const Part& part, double clipped) {
  std::vector<double> sizes;
  for (const double w : part.numbers) sizes.push_back(part.size(w));
  std::sort(sizes.begin(), sizes.end());
  const auto count = static_cast<double>(sizes.size());
  const size_t kept = sizes.size() - static_cast<size_t>(std::floor(clipped * count));
  auto size = sizes.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(kept, 1) - 1);
  while (*size == 0) ++size;  // the part has something
  return *size / static_cast<double>(part.range.reach());
}

double kullback_leibler_scale(const Part& part) {
  constexpr int64_t kCells = 2048;
  std::vector<uint64_t> counts(kCells);
  double most = 0;
  for (const double w : part.numbers) most = std::max(most, part.size(w));
  for (const double w : part.numbers) {
    const auto cell = static_cast<int64_t>(part.size(w) / most * kCells);
    ++counts[static_cast<size_t>(std::min(cell, kCells - 1))];
  }
  const auto cells = static_cast<double>(least_divergence(counts, part.range.reach() + 1));
  return most * (cells / kCells) / static_cast<double>(part.range.reach());
}

// For a part that has something.
double chosen_scale(const Part& part, const WeightSettings& settings) {
  const auto snapped = [&](double scale) { return scale_above(scale, settings.scale_bits); };
  switch (settings.method) {
    case WeightMethod::kMmse:
      return least_squares_scale(part, settings.scale_bits);
    case WeightMethod::kUniform:
      break;
    case WeightMethod::kPercentile:
      return snapped(percentile_scale(part, settings.clipped));
    case WeightMethod::kKullbackLeibler:
      return snapped(kullback_leibler_scale(part));
    case WeightMethod::kUnit:
      return snapped(std::ldexp(1.0 / static_cast<double>(part.range.reach()), -part.exponent));
  }
  return snapped(uniform_scale(part));
}

Status check(const WeightSettings& settings, size_t weights) {
  const MantissaRange& range = settings.range;
  if (range.hi <= range.lo || range.lo > 0 || range.hi < 0 || range.hi > INT32_MAX ||
      range.lo < INT32_MIN) {
    return invalid_input("a range of mantissas from " + std::to_string(range.lo) + " to " +
                         std::to_string(range.hi) + "; it must contain zero and another number");
  }
  MANTISSA_RETURN_IF_ERROR(check_parts(weights, settings.parts));
  if (settings.scale_bits < 1 || settings.scale_bits > kMostScaleBits) {
    return invalid_input("scales of " + std::to_string(settings.scale_bits) +
                         " bits; 1 (powers of two) to 53 are possible");
  }
  if (!(settings.clipped >= 0 && settings.clipped < 1)) {
    return invalid_input("a part of the weights that may be clipped must be in [0, 1)");
  }
  if (settings.method == WeightMethod::kKullbackLeibler && range.levels() <= 2) {
    return invalid_input(
        "Kullback-Leibler needs two bits or more; with one bit mmse, uniform and "
        "percentile are possible");
  }
  return {};
}

template <typename Number>
Result<QuantisedWeights> quantise(std::span<const Number> weights, const WeightSettings& settings) {
  MANTISSA_RETURN_IF_ERROR(check(settings, weights.size()));
  MANTISSA_RETURN_IF_ERROR(check_numbers(weights));
  QuantisedWeights result;
  result.mantissas.resize(weights.size());
  const size_t length = weights.size() / static_cast<size_t>(settings.parts);
  for (size_t begin = 0; result.scales.size() < static_cast<size_t>(settings.parts);
       begin += length) {
    const Part part = part_of(weights.subspan(begin, length), settings.range);
    double scale = part.scale_of_nothing();
    if (!part.has_nothing) {
      const double chosen = chosen_scale(part, settings);
      scale = std::ldexp(chosen, part.exponent);
      for (size_t i = 0; i < length; ++i) {
        result.mantissas[begin + i] =
            static_cast<int32_t>(nearest_mantissa(part.numbers[i] / chosen, part.range));
      }
    } else if (settings.range.step == 2) {
      for (size_t i = 0; i < length; ++i) {
        result.mantissas[begin + i] = weights[begin + i] >= 0 ? 1 : -1;
      }
    }
    result.scales.push_back(scale);
  }
  return result;
}

double with_bits(double scale, int bits, double (*round)(double)) {
  int exponent = 0;
  const double mantissa = std::frexp(scale, &exponent);
  return std::ldexp(round(std::ldexp(mantissa, bits)), exponent - bits);
}

}  // namespace

Result<QuantisedWeights> quantise_weights(std::span<const float> weights,
                                          const WeightSettings& settings) {
  return quantise(weights, settings);
}

Result<QuantisedWeights> quantise_weights(std::span<const double> weights,
                                          const WeightSettings& settings) {
  return quantise(weights, settings);
}

Result<std::vector<int32_t>> nearest_mantissas(std::span<const double> weights,
                                               std::span<const double> scales,
                                               const MantissaRange& range) {
  MANTISSA_RETURN_IF_ERROR(check_parts(weights.size(), static_cast<int64_t>(scales.size())));
  MANTISSA_RETURN_IF_ERROR(check_numbers(weights));
  for (const double scale : scales) {
    if (!(scale > 0 && std::isfinite(scale))) {
      return invalid_input("a scale of weights is not a positive number");
    }
  }
  const size_t length = weights.size() / scales.size();
  std::vector<int32_t> mantissas(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    mantissas[i] = static_cast<int32_t>(nearest_mantissa(weights[i] / scales[i / length], range));
  }
  return mantissas;
}

double squared_error(std::span<const double> weights, double scale,
                     std::span<const int32_t> mantissas) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double difference = weights[i] - scale * mantissas[i];
    sum += difference * difference;
  }
  return sum;
}

double nearest_scale(double scale, int bits) {
  return with_bits(scale, bits, [](double x) { return std::nearbyint(x); });
}
double scale_below(double scale, int bits) {
  return with_bits(scale, bits, [](double x) { return std::floor(x); });
}
double scale_above(double scale, int bits) {
  return with_bits(scale, bits, [](double x) { return std::ceil(x); });
}

}  // namespace mantissa::quantise
