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

// A layer's weights become scale[c] * mantissa. The network's numbers are those over factor[c] =
// scale[c] / 2^exponent, which the batch norm behind takes out, or the rescale multiplies by. The
// factor 0 is that of weights of zero on {-1, +1}, which has none.
struct WeightScales {
  int exponent = 0;
  std::vector<double> factors;  // by output channel
  double error = 0;             // root of the squared error over that of the squares
};

// The whole numbers that weights of so many bits may become.
Result<quantise::MantissaRange> weight_range(int bits, const QuantiseSettings& settings);

// The choices for a layer's mantissas beside its weights. For AdaRound its inputs, too: rows as
// they were, and the grid that they get.
struct RoundingInputs {
  const std::vector<float>& rows;
  const std::optional<quantise::LinearGrid>& grid;
  int lazy_shift;  // of weights that are trained
};

// Quantises weights in equal rows, one for each output channel. They become the numbers that the
// network starts with: mantissas times 2^exponent, or what rounds to them. Errors name the layer.
Result<WeightScales> quantise_layer_weights(const std::string& name, int64_t channels,
                                            const QuantisedLayer& layer,
                                            const RoundingInputs& inputs,
                                            const QuantiseSettings& settings,
                                            std::vector<double>& weights);

}  // namespace mantissa
