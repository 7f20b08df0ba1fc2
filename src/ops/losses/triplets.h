// Triplets of the vectors of a batch (Schroff et al. 2015, Hermans et al. 2017): an anchor is to be
// nearer to a vector with its label than to one with another label, by a margin.
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace mantissa::ops {

enum class Mining : uint8_t { kHard, kAll, kSemiHard };  // in the order of the attribute's words

struct TripletAttributes {
  double margin = 0;
  int64_t half_q30 = 0;  // margin / 2
  Mining mining = Mining::kAll;
};

// The whole number of the attribute.
void derive_triplets(TripletAttributes& attributes);

constexpr double kMostMargin = 4;  // squared distances of vectors of length 1 are at most 4

}  // namespace mantissa::ops
