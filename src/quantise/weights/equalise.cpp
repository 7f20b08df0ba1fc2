#include "quantise/weights/equalise.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "quantise/weights/part.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

Status check(const ChannelNumbers& part) {
  if (part.channels < 1 || part.inner < 1 ||
      part.numbers.size() % static_cast<size_t>(part.channels * part.inner) != 0) {
    return invalid_input(std::to_string(part.numbers.size()) + " numbers are not those of " +
                         std::to_string(part.channels) + " channels");
  }
  return check_numbers(std::span<const double>(part.numbers));
}

size_t channel_of(const ChannelNumbers& part, size_t index) {
  return index / static_cast<size_t>(part.inner) % static_cast<size_t>(part.channels);
}

std::vector<double> largest(const ChannelNumbers& part) {
  std::vector<double> result(static_cast<size_t>(part.channels));
  for (size_t i = 0; i < part.numbers.size(); ++i) {
    double& most = result[channel_of(part, i)];
    most = std::max(most, std::abs(part.numbers[i]));
  }
  return result;
}

}  // namespace

Result<std::vector<double>> equalise_channels(ChannelNumbers first, ChannelNumbers bias,
                                              ChannelNumbers second, bool powers_of_two) {
  MANTISSA_RETURN_IF_ERROR(check(first));
  MANTISSA_RETURN_IF_ERROR(check(second));
  if (!bias.numbers.empty()) MANTISSA_RETURN_IF_ERROR(check(bias));
  if (first.channels != second.channels ||
      (!bias.numbers.empty() && bias.channels != first.channels)) {
    return invalid_input(std::to_string(first.channels) + " channels cannot be equalised with " +
                         std::to_string(second.channels));
  }
  const std::vector<double> before = largest(first), after = largest(second);
  std::vector<double> factors;
  for (size_t c = 0; c < before.size(); ++c) {
    const bool both = before[c] > 0 && after[c] > 0;
    const double factor = both ? std::sqrt(before[c]) / std::sqrt(after[c]) : 1;
    factors.push_back(powers_of_two ? nearest_scale(factor, 1) : factor);
  }
  for (const ChannelNumbers& part : {first, bias}) {
    for (size_t i = 0; i < part.numbers.size(); ++i) {
      part.numbers[i] /= factors[channel_of(part, i)];
    }
  }
  for (size_t i = 0; i < second.numbers.size(); ++i) {
    second.numbers[i] *= factors[channel_of(second, i)];
  }
  return factors;
}

Result<std::vector<double>> bias_corrections(std::span<const double> weights,
                                             std::span<const double> quantised,
                                             std::span<const double> means) {
  if (weights.size() != quantised.size() || means.empty() || weights.size() % means.size() != 0) {
    return invalid_input(std::to_string(weights.size()) + " weights, " +
                         std::to_string(quantised.size()) + " quantised ones and " +
                         std::to_string(means.size()) + " means of inputs do not fit");
  }
  std::vector<double> corrections(weights.size() / means.size());
  for (size_t k = 0; k < weights.size(); ++k) {
    corrections[k / means.size()] += (weights[k] - quantised[k]) * means[k % means.size()];
  }
  return corrections;
}

}  // namespace mantissa::quantise
