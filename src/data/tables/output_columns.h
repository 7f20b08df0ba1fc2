// The columns of a table that a network with several outputs predicts.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// The names of the columns of each output: those that `target` names, by the outputs, as in
// "where=east,north,kind=tree", or in their order; or else the outputs' own names. An error for an
// output that has another number of them.
Result<std::vector<std::vector<std::string>>> columns_of_outputs(const TableChoices& choices);

}  // namespace mantissa
