// Two ways to make weights easier to quantise, or to repair a part of the damage: equal ranges of
// channels across layers, and biases that correct the mean error (M. Nagel and others, "Data-free
// quantization through weight equalization and bias correction", 2019).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace mantissa::quantise {

// Numbers that belong to channels: the index is (outer * channels + channel) * inner + i. Output
// channels of weights [O, KH, KW, C] are {numbers, O, KH * KW * C}, input channels {numbers, C, 1}.
struct ChannelNumbers {
  std::span<double> numbers;
  int64_t channels = 1;
  int64_t inner = 1;
};

// Divides the channels of `first` and `bias` (which may be empty) by factors and multiplies the
// channels of `second` by them, so that the largest magnitudes of both become equal: sqrt(r1 / r2).
// If `first` is followed by a ReLU, a pooling or nothing, and then by `second` alone, the network
// computes the same. With `powers_of_two` the factors are the nearest ones, and numbers change only
// in their exponents. A channel that is zero in one of both keeps the factor 1. Returns the
// factors. Refused: channels that do not fit or differ in number, numbers that are not finite.
Result<std::vector<double>> equalise_channels(ChannelNumbers first, ChannelNumbers bias,
                                              ChannelNumbers second, bool powers_of_two);

// The correction of the biases, so that the mean outputs equal those of the original weights: for
// each output sum (w - q) * mean over its features. `weights` and `quantised` are [outputs,
// features]; `means` are the means of each feature over calibration inputs. Refused: lengths that
// do not fit.
Result<std::vector<double>> bias_corrections(std::span<const double> weights,
                                             std::span<const double> quantised,
                                             std::span<const double> means);

}  // namespace mantissa::quantise
