// Weights as indices of a codebook: k-means (QuantInit [0042]). It is no linear grid, so it is for
// storage and comparison only; operators read the values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace mantissa::quantise {

struct CodebookWeights {
  std::vector<double> values;    // [parts, 2^bits], ascending in each part
  std::vector<uint8_t> indices;  // [weights]: of the values of its part
};

// For each of `parts` equal consecutive runs 2^bits values, bits from 1 to 8, by Lloyd's algorithm
// from three starts: the grid of quantise_weights (so that it is never worse), equal distances,
// equal numbers of weights. The start that ends with the least squared error is kept; of equal
// errors the first. A weight takes the nearest value; of two the smaller. A value that is nearest
// to no weight stays where it is. Refuses the same weights and parts as quantise_weights.
Result<CodebookWeights> cluster_weights(std::span<const float> weights, int bits, int64_t parts);
Result<CodebookWeights> cluster_weights(std::span<const double> weights, int bits, int64_t parts);

}  // namespace mantissa::quantise
