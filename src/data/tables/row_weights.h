// Weights of rows: how much each example of a table counts in training, by a column.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "data/tables/table_rows.h"

namespace mantissa {

// The most that an example or a class counts; the least is 0.
constexpr double kMostWeight = 31;

// A weight as a mantissa at kWeightExponent, to nearest even.
int16_t weight_mantissa(double weight);

// The weight in a field, as such a mantissa. An error names the row and the field: nothing, a text,
// or a number that is not from 0 to kMostWeight.
Result<int16_t> row_weight(const TableField& field, const std::string& column,
                           const TableRows& rows);

}  // namespace mantissa
