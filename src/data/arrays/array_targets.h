// Targets in arrays: one or several for each example, [N] or [N, K], or a class for each place.
#pragma once

#include <vector>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "formats/arrays/npy.h"

namespace mantissa {

// The targets of examples, as those of a table: from the examples of the split's part. The notes
// about them are taken over.
Result<std::vector<TableColumn>> example_targets(const FoundSplit& split, const NpyArray& y,
                                                 const DataOptions& options, FoundData& found);

// A class for each position or pixel: as many as the largest label says. An error for labels that
// are no whole numbers from 0 on.
Result<TableColumn> place_target(const FoundSplit& split, const NpyArray& y);

// Appends the targets of the examples of a split's part to a set of row_set. Errors: a class that
// no training example has, a target that is missing.
Status append_targets(const FoundSplit& split, const NpyArray& y, const TableSchema& schema,
                      ExampleSet& set);

}  // namespace mantissa
