// Inputs of calibration, for tests.
#pragma once

#include <rapidcheck.h>

#include <cmath>
#include <vector>

#include "quantise/activations/activation_statistics.h"
#include "quantise/test_numbers.h"

namespace mantissa::quantise {

using Input = std::vector<float>;

inline ActivationStatistics statistics_of(const std::vector<Input>& inputs) {
  ActivationStatistics statistics;
  for (const Input& input : inputs) statistics.add(input);
  return statistics;
}

inline Input drawn_input() {
  const auto size = *rc::gen::inRange<size_t>(1, 60);
  const auto numbers = drawn_weights(size);
  const double factor = std::ldexp(1, *rc::gen::inRange(-20, 20));
  Input input;
  for (const double number : numbers) input.push_back(static_cast<float>(number * factor));
  return input;
}

}  // namespace mantissa::quantise
