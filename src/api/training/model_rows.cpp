// Rows of tables in memory, in the form that networks trained on such tables take.
#include <cmath>
#include <utility>

#include "api/public_values.h"
#include "api/training/model_data.h"
#include "data/batches/examples.h"
#include "data/tables/table_encoder.h"
#include "tensor/table_numbers.h"

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

// The rows' numbers, and their targets if all of them have one.
struct Encoded {
  int64_t count = 0;
  std::vector<int16_t> numbers, targets;
  std::vector<int32_t> labels;
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

void add_target(const TableTarget& target, const TableSchema& schema, Encoded& rows) {
  if (!target.is_known) return;
  if (schema.is_regression()) {
    rows.targets.push_back(standardised(target.number, schema.target, kTargetExponent));
  } else {
    rows.labels.push_back(static_cast<int32_t>(target.label));
  }
}

ArraySet arrays_of(const Encoded& rows, const TableSchema& schema) {
  ArraySet set{.count = rows.count, .arrays = {}};
  set.arrays.push_back(
      {kNumberTensor, Elements::kMantissa, {schema.features()}, rows.numbers.data()});
  if (rows.count > 0 && std::ssize(rows.targets) == rows.count) {
    set.arrays.push_back({kTargetTensor, Elements::kMantissa, {1}, rows.targets.data()});
  }
  if (rows.count > 0 && std::ssize(rows.labels) == rows.count) {
    set.arrays.push_back({kLabelTensor, Elements::kInt32, {}, rows.labels.data()});
  }
  return set;
}

Result<EncodedRows> encode_rows(const std::optional<TableSchema>& schema,
                                const std::vector<NamedColumn>& columns) {
  if (!schema) return invalid_input("the network was not trained on a table");
  if (schema->text) {
    return invalid_input("the network reads texts, column '" + schema->text->name +
                         "': the commands predict and eval take them");
  }
  MANTISSA_RETURN_IF_ERROR(check_columns(columns));
  ColumnRows source(columns, schema->format);
  MANTISSA_ASSIGN(TableEncoder encoder, TableEncoder::create(*schema, source));
  const auto rows = std::make_shared<Encoded>();
  while (true) {
    MANTISSA_ASSIGN(const auto row, source.next());
    if (row.empty()) break;
    MANTISSA_RETURN_IF_ERROR(encoder.append_inputs(row, rows->numbers));
    MANTISSA_ASSIGN(const TableTarget target, encoder.target(row));
    add_target(target, *schema, *rows);
    ++rows->count;
  }
  EncodedRows encoded{
      .arrays = arrays_of(*rows, *schema), .notes = encoder.notes(), .memory = rows};
  return encoded;
}

}  // namespace

Outcome<EncodedRows> Model::encode(const std::vector<NamedColumn>& columns) const {
  auto encoded = encode_rows(data_->network.description.table, columns);
  if (!encoded.ok()) return failure_of(encoded.error());
  return std::move(*encoded);
}

}  // namespace mantissa
