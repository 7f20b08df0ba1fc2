// Data sets of tables, whatever files their rows come from.
#pragma once

#include <memory>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "data/tables/table_rows.h"

namespace mantissa {

// Opens the file of a split.
using OpenRows = Result<std::unique_ptr<TableRows>> (*)(const FoundSplit& split,
                                                        const TableFormat& format);

// Finds the columns from the training rows, unless the options bring them, and counts the rows of
// all splits that have files. Without test rows, those of the validation split are taken for them,
// or some training rows.
Status inspect_table(OpenRows open, const DataOptions& options, FoundData& found);

// Reads the rows of a split; of `found.train` with their weights, if there are any. An error names
// the line: a row without the target. Notes say what of the rows the network does not get.
Result<ImageSet> read_table(OpenRows open, const FoundData& found, const FoundSplit& split,
                            const ReadOptions& options);

}  // namespace mantissa
