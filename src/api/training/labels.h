// Checks of the labels of a whole data set, beside the check of each label.
#pragma once

#include "api/training/array_set.h"
#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// An error if a loss has no labels at all, or if they are -1 and one class. -1 says that an example
// has no label. If the user meant two classes by it, only one would be trained, and always be
// right.
Status check_classes(const Graph& network, const BoundArrays& arrays);

}  // namespace mantissa
