// Which numbers are learning rates.
#pragma once

namespace mantissa {

// A NaN clips all weights, and what is below the smallest normal float is 0 in fp32.
inline constexpr double kLeastLearningRate = 0x1p-126, kLargestLearningRate = 1000;
constexpr bool is_learning_rate(double rate) {
  return rate == 0 || (rate >= kLeastLearningRate && rate <= kLargestLearningRate);
}

}  // namespace mantissa
