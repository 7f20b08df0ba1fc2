#include "data/table_encoder.h"

#include <algorithm>
#include <cmath>

#include "data/wordpiece.h"
#include "tensor/table_numbers.h"

namespace mantissa {

Result<TableEncoder> TableEncoder::create(const TableSchema& schema, const TableRows& rows) {
  const std::vector<std::string>& names = rows.names();
  TableEncoder encoder(schema, rows);
  for (const TableColumn& column : schema.columns) {
    MANTISSA_ASSIGN(const size_t place, find_column(names, column.name, rows.place() + ": "));
    encoder.columns_.push_back({place, numbers_of(column)});
  }
  if (schema.text) {
    MANTISSA_ASSIGN(encoder.text_, find_column(names, schema.text->name, rows.place() + ": "));
  }
  const auto target = std::find(names.begin(), names.end(), schema.target.name);
  if (target != names.end()) {
    encoder.target_ = {static_cast<size_t>(target - names.begin()), numbers_of(schema.target)};
  }
  return encoder;
}

std::unordered_map<std::string, int64_t> TableEncoder::numbers_of(const TableColumn& column) {
  std::unordered_map<std::string, int64_t> numbers;
  for (const std::string& category : column.categories) {
    numbers.emplace(category, static_cast<int64_t>(numbers.size()));
  }
  return numbers;
}

Error TableEncoder::wrong(const TableColumn& column, const TableField& field) const {
  return invalid_input(rows_.place() + ": column '" + column.name + "' is of numbers, and has '" +
                       category_of(field).substr(0, 40) + "'");
}

Status TableEncoder::append_text(const TableField& field, std::vector<int16_t>& numbers) {
  const TextColumn& column = *schema_.text;
  const WordPiece& tokenizer = *column.tokenizer;
  auto tokens = tokenizer.encode(field.kind == FieldKind::kMissing ? "" : utf8_text(field.text));
  if (!tokens.ok()) return invalid_input(rows_.place() + ": " + tokens.error().message);
  const size_t most = static_cast<size_t>(column.sequence) - 2;
  truncated_ += tokens->size() > most;
  const size_t end = numbers.size() + static_cast<size_t>(column.sequence);
  numbers.push_back(static_cast<int16_t>(tokenizer.first()));
  for (size_t i = 0; i < std::min(most, tokens->size()); ++i) {
    numbers.push_back(static_cast<int16_t>((*tokens)[i]));
  }
  numbers.push_back(static_cast<int16_t>(tokenizer.last()));
  numbers.resize(end, kNoToken);
  return {};
}

Status TableEncoder::append_inputs(std::span<const TableField> row, std::vector<int16_t>& numbers) {
  if (schema_.text) return append_text(row[text_], numbers);
  for (size_t i = 0; i < columns_.size(); ++i) {
    const TableColumn& column = schema_.columns[i];
    const TableField& field = row[columns_[i].place];
    if (column.is_number()) {
      if (is_odd(field)) return wrong(column, field);
      const bool missing = field.kind == FieldKind::kMissing;
      numbers.push_back(missing ? int16_t{0}
                                : standardised(field.number, column, kFeatureExponent));
      continue;
    }
    const size_t first = numbers.size();
    numbers.resize(first + column.categories.size(), 0);
    if (field.kind == FieldKind::kMissing) continue;
    const auto category = columns_[i].numbers.find(category_of(field));
    if (category == columns_[i].numbers.end()) {
      ++unknown_;
    } else {
      numbers[first + static_cast<size_t>(category->second)] = 1 << -kFeatureExponent;
    }
  }
  return {};
}

bool TableEncoder::is_odd(const TableField& field) {
  return field.kind == FieldKind::kText || (field.is_number() && !std::isfinite(field.number));
}

Result<TableTarget> TableEncoder::target(std::span<const TableField> row) const {
  if (!target_ || row[target_->place].kind == FieldKind::kMissing) return TableTarget{};
  const TableField& field = row[target_->place];
  if (schema_.is_regression()) {
    if (is_odd(field)) return wrong(schema_.target, field);
    return TableTarget{.is_known = true, .number = field.number};
  }
  const std::string category = category_of(field);
  const auto found = target_->numbers.find(category);
  if (found != target_->numbers.end()) return TableTarget{.is_known = true, .label = found->second};
  return invalid_input(rows_.place() + ": '" + category.substr(0, 40) +
                       "' is no class of the training rows (column '" + schema_.target.name + "')");
}

}  // namespace mantissa
