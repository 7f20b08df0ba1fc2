// Rows of tables in memory, in the form that networks trained on such tables take.
#include <cmath>
#include <utility>

#include "api/public_values.h"
#include "api/training/array_set.h"
#include "api/training/model_data.h"
#include "data/readers/table_reader.h"

namespace mantissa {
namespace {

class ColumnRows : public TableRows {
 public:
  ColumnRows(const std::vector<NamedColumn>& columns, const TableFormat& format)
      : columns_(columns), format_(format) {
    for (const NamedColumn& column : columns) names_.push_back(column.name);
  }

  const std::vector<std::string>& names() const override { return names_; }

  Result<std::span<const TableField>> next() override {
    fields_.clear();
    if (row_ == columns_[0].size()) return std::span<const TableField>(fields_);
    for (const NamedColumn& column : columns_) {
      fields_.push_back(column.texts.empty() ? field_of(column.numbers[row_])
                                             : read_field(column.texts[row_]));
      if (is_told_missing(fields_.back(), format_)) fields_.back().kind = FieldKind::kMissing;
    }
    ++row_;
    return std::span<const TableField>(fields_);
  }

  std::string place() const override {
    return row_ == 0 ? "rows" : "row " + std::to_string(row_ - 1);
  }

 private:
  static TableField field_of(double number) {
    if (std::isnan(number)) return {};
    const bool whole = number == std::floor(number);
    return {whole ? FieldKind::kWhole : FieldKind::kReal, number, {}};
  }

  const std::vector<NamedColumn>& columns_;
  const TableFormat& format_;
  std::vector<std::string> names_;
  std::vector<TableField> fields_;
  size_t row_ = 0;
};

Status check_columns(const std::vector<NamedColumn>& columns) {
  if (columns.empty()) return invalid_input("there is no column");
  for (const NamedColumn& column : columns) {
    if (column.size() == columns[0].size()) continue;
    return invalid_input("column '" + column.name + "' has " + std::to_string(column.size()) +
                         " rows, and '" + columns[0].name + "' " +
                         std::to_string(columns[0].size()));
  }
  return {};
}

Result<EncodedRows> encode_rows(const std::optional<TableSchema>& schema,
                                const std::vector<NamedColumn>& columns) {
  if (!schema) return invalid_input("the network was not trained on a table");
  if (schema->text) {
    return invalid_input("the network reads texts, column '" + schema->text->name +
                         "': the commands predict and eval take them");
  }
  if (schema->has_named_inputs()) {
    return invalid_input(
        "the network takes arrays by the names of its inputs, not rows: the commands predict and "
        "eval take them");
  }
  if (schema->is_shaped()) {
    return invalid_input("the network takes arrays of " + to_string(schema->shape) +
                         ", not rows: the commands predict and eval take them");
  }
  MANTISSA_RETURN_IF_ERROR(check_columns(columns));
  ColumnRows source(columns, schema->format);
  MANTISSA_ASSIGN(TableEncoder encoder, TableEncoder::create(*schema, source));
  const auto rows = std::make_shared<ExampleSet>(row_set(*schema, false));
  bool have_targets = true;
  while (true) {
    MANTISSA_ASSIGN(const auto row, source.next());
    if (row.empty()) break;
    MANTISSA_ASSIGN(const bool has_target, append_row(row, *schema, encoder, *rows));
    have_targets &= has_target;
  }
  if (rows->count == 0 || !have_targets) rows->tensors.pop_back();
  return EncodedRows{.arrays = arrays_of(*rows), .notes = encoder.notes(), .memory = rows};
}

}  // namespace

Outcome<EncodedRows> Model::encode(const std::vector<NamedColumn>& columns) const {
  MANTISSA_ASSIGN(auto encoded, encode_rows(data_->network.description.table, columns));
  return encoded;
}

}  // namespace mantissa
