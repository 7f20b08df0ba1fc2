// Labels of the places of an example, pixels or positions, of which some may have none.
#pragma once

#include "data/batches/example_set.h"

namespace mantissa {

// Stored in place of the label of a place that has none.
constexpr Label kNoLabel = kMaxClasses - 1;

inline bool is_known(const StoredTensor& labels, Label label) {
  return labels.shape.rank == 0 || label != kNoLabel;
}

}  // namespace mantissa
