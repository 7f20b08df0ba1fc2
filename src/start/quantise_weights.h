// Post-training quantisation of a layer's weights (METHODS section 3): scales, mantissas, and where
// the weights begin to be trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "quantise/linear_grid.h"
#include "start/quantise.h"

namespace mantissa {

// A layer's weights become scale[c] * mantissa. The network's numbers are the weights divided by
// factor[c] = scale[c] / 2^exponent. The batch norm after the layer takes the factor out, or the
// rescale multiplies by it. Weights of zero on {-1, +1} have no scale: their factor is 0.
struct WeightScales {
  int exponent = 0;
  std::vector<double> factors;  // by output channel
  double error = 0;             // root of (squared error / squares)
};

// The whole numbers that weights of this many bits may become.
Result<quantise::MantissaRange> weight_range(int bits, const QuantiseSettings& settings);

// The data that decide a layer's mantissas, beside its weights. For AdaRound also its inputs:
// original rows, and the grid that they get.
struct RoundingInputs {
  const std::vector<float>& rows;
  const std::optional<quantise::LinearGrid>& grid;
  int lazy_shift;  // of weights that are trained
};

// Quantises weights in equal rows, one for each output channel. The results are the numbers that
// the network starts with: mantissas times 2^exponent, or numbers that round to them. Errors name
// the layer.
Result<WeightScales> quantise_layer_weights(const std::string& name, int64_t channels,
                                            const QuantisedLayer& layer,
                                            const RoundingInputs& inputs,
                                            const QuantiseSettings& settings,
                                            std::vector<double>& weights);

}  // namespace mantissa
