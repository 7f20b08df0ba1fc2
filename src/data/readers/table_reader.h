// Data sets of tables, from any kind of file.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "data/tables/table_encoder.h"
#include "data/tables/table_rows.h"

namespace mantissa {

// Opens the file of a split.
using OpenRows = Result<std::unique_ptr<TableRows>> (*)(const FoundSplit& split,
                                                        const TableFormat& format);

// Finds the columns from the training rows, unless the options bring them, and counts the rows of
// all splits that have files. If there are no test rows, the validation split or some training rows
// take their place.
Status inspect_table(OpenRows open, const DataOptions& options, FoundData& found);

// Appends the known target of an example to a set of row_set.
void append_target(const TableTarget& target, const TableSchema& schema, ExampleSet& set);

// Appends a row to a set of row_set, and its target if that is known: the result says whether it
// is. Errors of the encoder.
Result<bool> append_row(std::span<const TableField> row, const TableSchema& schema,
                        TableEncoder& encoder, ExampleSet& set);

// Reads the rows of a split. Rows of `found.train` are read with their weights, if there are any.
// An error names the line: a row without the target. Notes name the parts of the rows that the
// network does not get.
Result<ExampleSet> read_table(OpenRows open, const FoundData& found, const FoundSplit& split,
                              const ReadOptions& options);

}  // namespace mantissa
