#include "data/tables/table_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKindNames[] = {"pictures", "numbers", "tokens", "lengths"};
constexpr int kKindRanks[][2] = {{3, 3}, {1, 3}, {0, 1}, {0, 0}};

// The decimal sign, and the one between thousands: ",.".
std::string style_text(NumberStyle style) {
  return std::string(1, style.decimal) + (style.group == '\0' ? "" : std::string(1, style.group));
}

std::optional<NumberStyle> style_of(const std::string& text) {
  const auto found = std::find_if(kNumberStyles.begin(), kNumberStyles.end(),
                                  [&](NumberStyle style) { return style_text(style) == text; });
  if (found == kNumberStyles.end()) return std::nullopt;
  return *found;
}

}  // namespace

Json column_json(const TableColumn& column) {
  Json json = {{"name", column.name}};
  if (column.is_number()) {
    json["mean"] = column.mean;
    json["deviation"] = column.deviation;
    if (column.style != NumberStyle()) json["number_style"] = style_text(column.style);
  } else {
    json["categories"] = column.categories;
  }
  json["missing"] = column.missing;
  return json;
}

Result<TableColumn> column_of(const Json& json) {
  TableColumn column;
  json.at("name").get_to(column.name);
  json.at("missing").get_to(column.missing);
  if (json.contains("categories")) {
    json.at("categories").get_to(column.categories);
    if (!column.categories.empty()) return column;
  } else {
    json.at("mean").get_to(column.mean);
    json.at("deviation").get_to(column.deviation);
    const auto style = style_of(json.value("number_style", "."));
    if (style) column.style = *style;
    if (style && std::isfinite(column.mean) && std::isfinite(column.deviation) &&
        column.deviation > 0) {
      return column;
    }
  }
  return invalid_input("column '" + column.name + "' is damaged");
}

Result<Shape> shape_in(const Json& json) {
  constexpr int kMostRank = 4;
  constexpr int64_t kMost = int64_t{1} << 31;
  Shape shape;
  for (const Json& dim : json) {
    const auto size = dim.get<int64_t>();
    const bool fits = shape.rank < kMostRank && size >= 1 && size <= kMost / shape.count();
    if (!fits) return invalid_input("the table's columns are damaged");
    shape.dims[static_cast<size_t>(shape.rank++)] = size;
  }
  return shape;
}

Json input_json(const ArrayInput& input) {
  Json json = {{"name", input.name},
               {"kind", kKindNames[static_cast<size_t>(input.kind)]},
               {"shape", dims_of(input.shape)}};
  if (input.limit > 0) json["limit"] = input.limit;
  if (!input.lengths.empty()) json["lengths"] = input.lengths;
  if (input.channels_first) json["channels_first"] = true;
  for (const TableColumn& column : input.columns) json["columns"].push_back(column_json(column));
  return json;
}

Result<ArrayInput> array_input_of(const Json& json) {
  ArrayInput input;
  json.at("name").get_to(input.name);
  const auto kind = json.at("kind").get<std::string>();
  const auto known = std::find(std::begin(kKindNames), std::end(kKindNames), kind);
  const Error damaged = invalid_input("the array '" + input.name + "' is damaged");
  if (known == std::end(kKindNames)) return damaged;
  const auto at = static_cast<size_t>(known - std::begin(kKindNames));
  input.kind = static_cast<ArrayKind>(at);
  MANTISSA_ASSIGN(input.shape, shape_in(json.at("shape")));
  input.limit = json.value("limit", int64_t{0});
  input.lengths = json.value("lengths", "");
  input.channels_first = json.value("channels_first", false);
  for (const Json& column : json.value("columns", Json::array())) {
    MANTISSA_ASSIGN(TableColumn one, column_of(column));
    if (!one.is_number()) return damaged;
    input.columns.push_back(std::move(one));
  }
  const int64_t columns = input.kind == ArrayKind::kNumbers ? input.shape.last() : 0;
  const auto& [least, most] = kKindRanks[at];
  const bool fits = input.shape.rank >= least && input.shape.rank <= most &&
                    std::ssize(input.columns) == columns && input.limit >= 0;
  return fits ? Result<ArrayInput>(std::move(input)) : damaged;
}

}  // namespace mantissa
