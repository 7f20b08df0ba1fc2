// The columns of a table, as its training rows tell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tables/table_rows.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// The rows of a file that are meant. Where the data have no test file, one of each five rows, in
// their order, is kept for testing.
enum class RowPart : uint8_t { kAll, kTrain, kTest };
bool is_of_part(int64_t row, RowPart part);

struct FoundSchema {
  TableSchema schema;
  std::vector<std::string> notes;  // a line each of what the user should know
  int64_t rows = 0;                // of the file, with those that are not meant
};

// Reads all rows. A column is of numbers if all its values are, else of categories; one with too
// many different texts is left out, and so is one without a name. Errors name the line: a number
// that is not finite, a row without the target, a weight out of its range; and tables whose target
// is the same in all rows, or of another kind than the choices say.
Result<FoundSchema> find_schema(TableRows& rows, RowPart part, const TableChoices& choices);

}  // namespace mantissa
