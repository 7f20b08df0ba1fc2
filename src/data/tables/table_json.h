// Parts of a table's columns as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "data/tables/table_schema.h"

namespace mantissa {

nlohmann::ordered_json column_json(const TableColumn& column);
nlohmann::ordered_json input_json(const ArrayInput& input);

// Reading checks everything. May throw json::exception, of what is missing or of another type.
Result<TableColumn> column_of(const nlohmann::ordered_json& json);
Result<Shape> shape_in(const nlohmann::ordered_json& json);
Result<ArrayInput> array_input_of(const nlohmann::ordered_json& json);

}  // namespace mantissa
