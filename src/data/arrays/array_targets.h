// Targets in arrays: one or several for each example, [N] or [N, K], or a class for each place.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "formats/arrays/npy.h"

namespace mantissa {

// The targets of examples, as those of a table: from the examples of the split's part. The notes
// about them are taken over. `name`: of the column, and the beginning of the names of several.
Result<std::vector<TableColumn>> example_targets(const FoundSplit& split, const NpyArray& y,
                                                 TableTask task, FoundData& found,
                                                 const std::string& name = "y");

// The label of a pixel or position, kNoLabel for -1. An error for one that is no whole number from
// -1 on.
Result<Label> place_label(const FoundSplit& split, const NpyArray& y, double number);

// The largest label of pixels or positions. A note says how many count nothing.
Result<Label> largest_place_label(const FoundSplit& split, const NpyArray& y, FoundData& found);

// A class for each position or pixel: as many as the largest label says.
Result<TableColumn> place_target(const FoundSplit& split, const NpyArray& y, FoundData& found);

// Writes the targets of a training split's arrays into a schema: one for each output, or the only
// one. Labels of places have the shape that the choices name.
Status take_targets(const FoundSplit& train, std::span<const NpyArray> arrays,
                    const TableChoices& choices, FoundData& found, TableSchema& schema);

// An error for targets of another shape than the schema's.
Status check_targets(const FoundSplit& split, std::span<const NpyArray> arrays,
                     const TableSchema& schema);

// Appends the targets of the examples of a split's part to a set of row_set. `schema` may be one
// output of several. Errors: a class that no training example has, a target that is missing.
Status append_targets(const FoundSplit& split, const NpyArray& y, const TableSchema& schema,
                      ExampleSet& set);

}  // namespace mantissa
