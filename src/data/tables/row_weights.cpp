#include "data/tables/row_weights.h"

#include <cmath>

#include "tensor/table_numbers.h"

namespace mantissa {

int16_t weight_mantissa(double weight) {
  return static_cast<int16_t>(std::nearbyint(std::ldexp(weight, -kWeightExponent)));
}

Result<int16_t> row_weight(const TableField& field, const std::string& column,
                           const TableRows& rows) {
  const bool fits = field.is_number() && field.number >= 0 && field.number <= kMostWeight;
  if (fits) return weight_mantissa(field.number);
  const std::string text = field.is_missing() ? std::string(field.text) : category_of(field);
  return invalid_input(rows.place() + ": column '" + column + "' has " +
                       (text.empty() ? "no weight" : "'" + text.substr(0, 40) + "'") +
                       "; weights of rows are numbers from 0 to 31");
}

}  // namespace mantissa
