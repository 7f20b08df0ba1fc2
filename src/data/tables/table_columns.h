// The columns of a table, as its training rows tell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tables/table_rows.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// The rows of a file that are used. If the data have no test file, one in five rows, in their
// order, is kept for testing.
enum class RowPart : uint8_t { kAll, kTrain, kTest };
bool is_of_part(int64_t row, RowPart part);

struct FoundSchema {
  TableSchema schema;
  std::vector<std::string> notes;  // notes for the user, a line each
  int64_t rows = 0;                // of the file, including unused ones
  std::vector<std::string> inputs;  // the file's columns that may be inputs, also unused ones
};

// Reads all rows. A column is of numbers if all its values are, else of categories; one with too
// many different texts is left out, and so is one without a name. Errors name the line: a number
// that is not finite, a row without the target, a weight out of its range; a target that is the
// same in all rows, or whose kind contradicts the choices.
Result<FoundSchema> find_schema(TableRows& rows, RowPart part, const TableChoices& choices);

}  // namespace mantissa
