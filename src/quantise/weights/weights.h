// Post-training quantisation of weights: a scale for each part and a mantissa for each weight
// (QuantInit [0042], [0119]; METHODS section 3). Pure functions of doubles in a fixed order, the
// same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "quantise/linear_grid.h"

namespace mantissa::quantise {

enum class WeightMethod {
  kMmse,             // least squared error
  kUniform,          // the smallest scale that clips nothing
  kPercentile,       // the smallest scale that clips at most a given part of the weights
  kKullbackLeibler,  // least divergence of the histogram of |w|; two bits or more
  kUnit,             // the grid from -1 to 1, for any weights
};

struct WeightSettings {
  WeightMethod method = WeightMethod::kMmse;
  MantissaRange range;
  int64_t parts = 1;      // equal consecutive runs of weights, each with a scale
  int scale_bits = 24;    // significant bits of scales: 1 powers of two, 24 floats, 53 any
  double clipped = 1e-3;  // of kPercentile: part of the weights that may be clipped, in [0, 1)
};

struct QuantisedWeights {
  std::vector<double> scales;      // [parts]; > 0
  std::vector<int32_t> mantissas;  // [weights]
};

// w becomes scale * q with q = nearest_mantissa(w / scale). A part without numbers for its range
// (zeros alone, or in {-1, 0} no negative number) has scale 1 and mantissas 0; for zeros in {-1,
// +1} the scale is 2^-126. A part whose largest such number is below 2^-126, the smallest normal
// float, counts as without numbers.
//
// MMSE alternates q = nearest_mantissa(w / scale) and scale = <w, q> / <q, q>. It starts from 28
// scales, from twice to 1/54 of kUniform's; then from the most promising of 195 scales ever closer
// around the best. It keeps the best: of equal errors the larger scale. The 28 are candidates too.
// If a part's weights times the largest mantissa are at most 512, all intervals of scales with the
// same mantissas are tried: it is the optimum.
//
// With scale_bits below 53 MMSE tries both neighbours of each candidate; with scale_bits 1 these
// are all powers of two in between. Other methods take the smallest such scale that is not below
// their own.
//
// Refused: weights that are not finite or not below 2^128, as floats are, parts that do not divide
// them, other settings out of range.
Result<QuantisedWeights> quantise_weights(std::span<const float> weights,
                                          const WeightSettings& settings);
Result<QuantisedWeights> quantise_weights(std::span<const double> weights,
                                          const WeightSettings& settings);

// The mantissas for given scales: as above, or of another origin. One scale for each equal run.
Result<std::vector<int32_t>> nearest_mantissas(std::span<const double> weights,
                                               std::span<const double> scales,
                                               const MantissaRange& range);

// sum (w - scale * q)^2, from the first weight to the last.
double squared_error(std::span<const double> weights, double scale,
                     std::span<const int32_t> mantissas);

// A number with this many significant bits: the nearest (ties to even), the largest not above, the
// smallest not below.
double nearest_scale(double scale, int bits);
double scale_below(double scale, int bits);
double scale_above(double scale, int bits);

}  // namespace mantissa::quantise
