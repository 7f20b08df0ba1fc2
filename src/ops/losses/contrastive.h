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

// Vectors that are compared at once.
inline constexpr int64_t kMostVectors = 8192;

// How many other examples have the label of one that counts, and whether another is one of them.
struct Friends {
  const int32_t* labels;
  int64_t count;

  bool are(int64_t i, int64_t j) const {
    return i != j && labels[i] >= 0 && labels[i] == labels[j];
  }
  int64_t of(int64_t i) const {
    int64_t found = 0;
    for (int64_t j = 0; j < count; ++j) found += are(i, j);
    return found;
  }
  bool are_compared(int64_t i, int64_t j) const { return i != j && labels[j] >= 0; }
};

}  // namespace mantissa::ops
