// What a whole data set's labels say, beside whether each of them is one.
#pragma once

#include "api/training/array_set.h"
#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// An error where the labels of a loss are none at all, or are -1 and one class: -1 says that an
// example has no label, so that of the two classes that are meant one alone would be trained, and
// be right always.
Status check_classes(const Graph& network, const BoundArrays& arrays);

}  // namespace mantissa
