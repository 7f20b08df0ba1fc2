// Supervised contrast of the vectors of a batch (Khosla et al. 2020): vectors with the same label
// attract each other, all others repel.
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace mantissa::ops {

struct ContrastiveAttributes {
  double temperature = 0;
  int64_t log2_q23 = 0;  // log2(e) / temperature
};

// The whole number of the attribute.
void derive_contrastive(ContrastiveAttributes& attributes);

constexpr double kLeastContrast = 0.01, kMostContrast = 100;  // temperatures

}  // namespace mantissa::ops
