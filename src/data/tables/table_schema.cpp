#include "data/tables/table_schema.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/tables/table_json.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTaskNames[] = {"auto", "classification", "regression"};

// May throw Json::exception.
Result<TextColumn> text_column_of(const Json& json) {
  TextColumn column;
  json.at("name").get_to(column.name);
  json.at("sequence").get_to(column.sequence);
  MANTISSA_ASSIGN(WordPiece tokenizer, parse_wordpiece(json.at("tokenizer").get<std::string>()));
  column.tokenizer = std::make_shared<const WordPiece>(std::move(tokenizer));
  MANTISSA_RETURN_IF_ERROR(check_text_column(column));
  return column;
}

// Several targets are all numbers, or all of two categories.
Status check_targets(const TableSchema& schema) {
  if (schema.more_targets.empty()) return {};
  for (const TableColumn& column : schema.targets()) {
    if (column.is_number() == schema.is_regression() &&
        (column.is_number() || column.categories.size() == 2)) {
      continue;
    }
    return invalid_input("column '" + column.name + "' is damaged");
  }
  return {};
}

}  // namespace

Status check_text_column(const TextColumn& column) {
  constexpr int64_t kLeastSequence = 3;  // one token between the special ones
  if (column.sequence < kLeastSequence || column.sequence > kMostTextTokens) {
    return invalid_input("sequence: texts have 3 to " + std::to_string(kMostTextTokens) +
                         " tokens, not " + std::to_string(column.sequence));
  }
  const auto pieces = std::ssize(column.tokenizer->pieces());
  if (pieces <= kMostTextPieces) return {};
  return invalid_input("the tokenizer has " + std::to_string(pieces) + " pieces; texts in tables " +
                       "have at most " + std::to_string(kMostTextPieces));
}

Result<TableTask> parse_table_task(const std::string& text) {
  for (const auto task :
       {TableTask::kByTarget, TableTask::kClassification, TableTask::kRegression}) {
    if (text == table_task_name(task)) return task;
  }
  return invalid_input("task: '" + text + "' is none of auto, classification and regression");
}

const char* table_task_name(TableTask task) { return kTaskNames[static_cast<size_t>(task)]; }

Result<std::optional<bool>> parse_header(const std::string& text) {
  if (text == "auto") return std::optional<bool>();
  if (text == "yes" || text == "true") return std::optional(true);
  if (text == "no" || text == "false") return std::optional(false);
  return invalid_input("header: '" + text + "' is none of yes, no and auto");
}

const char* header_name(const std::optional<bool>& has_header) {
  return !has_header ? "auto" : *has_header ? "yes" : "no";
}

std::vector<std::string> parse_missing(const std::string& text) {
  std::vector<std::string> list;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(",\n", begin), text.size());
    if (end > begin) list.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

std::string missing_text(const std::vector<std::string>& missing) {
  std::string text;
  for (const std::string& one : missing) text += (text.empty() ? "" : ",") + one;
  return text;
}

Result<char> parse_decimal(const std::string& text) {
  for (const char choice : {'\0', '.', ','}) {
    if (text == decimal_name(choice)) return choice;
  }
  return invalid_input("decimal: '" + text + "' is none of point, comma and auto");
}

const char* decimal_name(char decimal) {
  return decimal == '\0' ? "auto" : decimal == '.' ? "point" : "comma";
}

std::vector<TableColumn> TableSchema::targets() const {
  std::vector<TableColumn> all = {target};
  all.insert(all.end(), more_targets.begin(), more_targets.end());
  return all;
}

std::string TableSchema::target_names() const {
  std::vector<std::string> all;
  for (const TableSchema& each : outputs) all.push_back(each.target_names());
  if (outputs.empty()) {
    for (const TableColumn& column : targets()) all.push_back(column.name);
  }
  std::string names = all[0];
  for (size_t i = 1; i < all.size(); ++i) names += (i + 1 == all.size() ? " and " : ", ") + all[i];
  return names;
}

Result<ChannelAxis> parse_channel_axis(const std::string& text) {
  for (const auto axis : {ChannelAxis::kByShape, ChannelAxis::kLast, ChannelAxis::kFirst}) {
    if (text == channel_axis_name(axis)) return axis;
  }
  return invalid_input("channels: '" + text + "' is none of first, last and auto");
}

const char* channel_axis_name(ChannelAxis axis) {
  return axis == ChannelAxis::kByShape ? "auto" : axis == ChannelAxis::kLast ? "last" : "first";
}

int64_t TableSchema::features() const {
  if (is_shaped()) return shape.count();
  if (text) return text->sequence;
  int64_t features = 0;
  for (const TableColumn& column : columns) features += column.width();
  return features;
}

TableFormat TableSchema::file_format() const {
  TableFormat known = format;
  for (const TableColumn& column : columns) known.names.push_back(column.name);
  if (text) known.names.push_back(text->name);
  if (picture) known.names.push_back(picture->name);
  return known;
}

namespace {

void add_targets(const TableSchema& schema, Json& json) {
  json["target"] = column_json(schema.target);
  for (const TableColumn& column : schema.more_targets) {
    json["more_targets"].push_back(column_json(column));
  }
}

// May throw Json::exception.
Status parse_targets(const Json& json, TableSchema& schema) {
  MANTISSA_ASSIGN(schema.target, column_of(json.at("target")));
  for (const Json& column : json.value("more_targets", Json::array())) {
    MANTISSA_ASSIGN(TableColumn one, column_of(column));
    schema.more_targets.push_back(std::move(one));
  }
  return check_targets(schema);
}

// May throw Json::exception.
Status parse_outputs(const Json& json, TableSchema& schema) {
  for (const Json& one : json) {
    TableSchema& output = schema.outputs.emplace_back();
    one.at("name").get_to(output.output);
    MANTISSA_RETURN_IF_ERROR(parse_targets(one, output));
  }
  if (schema.outputs.size() > 1) return {};
  return invalid_input("the table's columns are damaged");
}

}  // namespace

std::string to_json(const TableSchema& schema) {
  Json json = {{"columns", Json::array()}};
  for (const TableColumn& column : schema.columns) json["columns"].push_back(column_json(column));
  if (schema.outputs.empty()) add_targets(schema, json);
  for (const TableSchema& output : schema.outputs) {
    Json one = {{"name", output.output}};
    add_targets(output, one);
    json["outputs"].push_back(std::move(one));
  }
  if (schema.text) {
    json["text"] = {{"name", schema.text->name},
                    {"sequence", schema.text->sequence},
                    {"tokenizer", to_json(*schema.text->tokenizer)}};
  }
  if (!schema.weights.empty()) json["weights"] = schema.weights;
  if (schema.format.has_header) json["header"] = *schema.format.has_header;
  if (!schema.format.missing.empty()) json["missing"] = schema.format.missing;
  if (schema.is_shaped()) json["shape"] = dims_of(schema.shape);
  if (schema.channels_first) json["channels_first"] = true;
  if (schema.label_shape.rank > 0) json["label_shape"] = dims_of(schema.label_shape);
  if (schema.has_labels_in_order) json["labels_in_order"] = true;
  for (const ArrayInput& input : schema.inputs) json["inputs"].push_back(input_json(input));
  if (schema.picture) {
    json["picture"] = {{"name", schema.picture->name}, {"shape", dims_of(schema.picture->shape)}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string table_json(const std::optional<TableSchema>& schema) {
  return schema ? to_json(*schema) : "";
}

Result<TableSchema> parse_table_schema(std::string_view text) {
  const Json json = parse_json<Json>(text);
  if (!json.is_object()) return invalid_input("the table's columns are damaged");
  TableSchema schema;
  try {
    for (const Json& column : json.at("columns")) {
      MANTISSA_ASSIGN(TableColumn one, column_of(column));
      schema.columns.push_back(std::move(one));
    }
    MANTISSA_RETURN_IF_ERROR(json.contains("outputs") ? parse_outputs(json.at("outputs"), schema)
                                                      : parse_targets(json, schema));
    if (json.contains("text")) {
      MANTISSA_ASSIGN(schema.text, text_column_of(json.at("text")));
    }
    if (json.contains("weights")) json.at("weights").get_to(schema.weights);
    if (json.contains("header")) schema.format.has_header = json.at("header").get<bool>();
    if (json.contains("missing")) json.at("missing").get_to(schema.format.missing);
    if (json.contains("shape")) {
      MANTISSA_ASSIGN(schema.shape, shape_in(json.at("shape")));
      const bool fits = schema.shape.last() == std::ssize(schema.columns) && !schema.text;
      if (!fits) return invalid_input("the table's columns are damaged");
    }
    schema.channels_first = json.value("channels_first", false);
    if (json.contains("label_shape")) {
      MANTISSA_ASSIGN(schema.label_shape, shape_in(json.at("label_shape")));
    }
    schema.has_labels_in_order = json.value("labels_in_order", false);
    if (schema.has_labels_in_order && schema.label_shape.rank != 1) {
      return invalid_input("the table's columns are damaged");
    }
    for (const Json& input : json.value("inputs", Json::array())) {
      MANTISSA_ASSIGN(ArrayInput one, array_input_of(input));
      schema.inputs.push_back(std::move(one));
    }
    if (json.contains("picture")) {
      const Json& picture = json.at("picture");
      PictureColumn& column = schema.picture.emplace();
      picture.at("name").get_to(column.name);
      MANTISSA_ASSIGN(column.shape, shape_in(picture.at("shape")));
      if (column.shape.rank != 3) return invalid_input("the table's columns are damaged");
    }
  } catch (const Json::exception&) {
    return invalid_input("the table's columns are damaged");
  }
  return schema;
}

int16_t standardised(double number, const TableColumn& column, int exponent) {
  const double wide = std::ldexp((number - column.mean) / column.deviation, -exponent);
  return static_cast<int16_t>(std::nearbyint(std::clamp<double>(wide, -INT16_MAX, INT16_MAX)));
}

}  // namespace mantissa
