#include "data/tables/table_encoder.h"

#include <algorithm>
#include <cmath>

#include "data/tokenizers/wordpiece.h"
#include "tensor/table_numbers.h"

namespace mantissa {

Result<TableEncoder> TableEncoder::create(const TableSchema& schema, const TableRows& rows) {
  const std::vector<std::string>& names = rows.names();
  TableEncoder encoder(schema, rows);
  for (const TableColumn& column : schema.columns) {
    MANTISSA_ASSIGN(const size_t place, find_column(names, column.name, rows.place() + ": "));
    encoder.columns_.push_back({.place = place, .numbers = numbers_of(column)});
  }
  if (schema.text) {
    MANTISSA_ASSIGN(encoder.text_, find_column(names, schema.text->name, rows.place() + ": "));
  }
  for (const TableSchema& output : schema.outputs) {
    MANTISSA_ASSIGN(TableEncoder one, create(output, rows));
    encoder.outputs_.push_back(std::move(one));
  }
  const bool has_all = std::ranges::all_of(encoder.outputs_, &TableEncoder::has_target);
  if (!has_all) encoder.outputs_.clear();
  if (!schema.outputs.empty()) return encoder;
  for (const TableColumn& column : schema.targets()) {
    const auto target = std::find(names.begin(), names.end(), column.name);
    if (target == names.end()) {
      encoder.targets_.clear();
      break;
    }
    encoder.targets_.push_back({.place = static_cast<size_t>(target - names.begin()),
                                .numbers = numbers_of(column)});
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
  return odd_value(rows_.place(), column.name, "'" + category_of(field).substr(0, 40) + "'");
}

int16_t TableEncoder::mantissa(double number, const TableColumn& column, int exponent,
                               Place& place) {
  const int16_t mantissa = standardised(number, column, exponent);
  place.clipped += mantissa == INT16_MAX || mantissa == -INT16_MAX;
  return mantissa;
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
    Place& place = columns_[i];
    const TableField field = field_in(row[place.place], column.style);
    if (column.is_number()) {
      if (is_odd(field)) return wrong(column, field);
      numbers.push_back(field.is_missing()
                            ? int16_t{0}
                            : mantissa(field.number, column, kFeatureExponent, place));
      continue;
    }
    const size_t first = numbers.size();
    numbers.resize(first + column.categories.size(), 0);
    if (field.is_missing()) continue;
    const std::string text = category_of(row[place.place]);
    const auto category = place.numbers.find(text);
    if (category != place.numbers.end()) {
      numbers[first + static_cast<size_t>(category->second)] = 1 << -kFeatureExponent;
    } else if (++place.unknown == 1) {
      place.first_unknown = text.substr(0, 40);
    }
  }
  return {};
}

bool TableEncoder::is_odd(const TableField& field) {
  return field.kind == FieldKind::kText || (field.is_number() && !std::isfinite(field.number));
}

Status TableEncoder::add_target(const TableColumn& column, const TableField& field, Place& place,
                                TableTarget& target) {
  if (schema_.is_regression()) {
    const TableField styled = field_in(field, column.style);
    if (is_odd(styled)) return wrong(column, field);
    // Counted here, because both training and testing read it.
    (void)mantissa(styled.number, column, kTargetExponent, place);
    target.numbers.push_back(styled.number);
    return {};
  }
  const std::string category = category_of(field);
  const auto found = place.numbers.find(category);
  if (found == place.numbers.end()) {
    return invalid_input(rows_.place() + ": '" + category.substr(0, 40) +
                         "' is no class of the training rows (column '" + column.name + "')");
  }
  if (schema_.has_labels()) {
    target.labels.push_back(static_cast<uint16_t>(found->second));
  } else {
    target.label = found->second;
  }
  return {};
}

Result<TableTarget> TableEncoder::target(std::span<const TableField> row) {
  TableTarget target;
  for (TableEncoder& output : outputs_) {
    MANTISSA_ASSIGN(TableTarget one, output.target(row));
    if (!one.is_known) return TableTarget{};
    target.outputs.push_back(std::move(one));
  }
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TableField& field = row[targets_[i].place];
    if (field.kind == FieldKind::kMissing) return TableTarget{};
    const TableColumn& column = i == 0 ? schema_.target : schema_.more_targets[i - 1];
    MANTISSA_RETURN_IF_ERROR(add_target(column, field, targets_[i], target));
  }
  target.is_known = has_target();
  return target;
}

std::vector<std::string> TableEncoder::notes() const {
  std::vector<std::string> notes;
  const auto note_clipped = [&](const std::string& name, const Place& place, int exponent) {
    if (place.clipped == 0) return;
    notes.push_back("column '" + name + "': " + std::to_string(place.clipped) + " numbers lie " +
                    std::to_string((1 << 15) >> -exponent) +
                    " deviations or more from the mean, and are clipped there");
  };
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Place& place = columns_[i];
    const std::string& name = schema_.columns[i].name;
    note_clipped(name, place, kFeatureExponent);
    if (place.unknown == 0) continue;
    notes.push_back("column '" + name + "': " + std::to_string(place.unknown) +
                    " texts are none of the training rows' categories ('" + place.first_unknown +
                    (place.unknown > 1 ? "', ...)" : "')") + ": they count as missing");
  }
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TableColumn& column = i == 0 ? schema_.target : schema_.more_targets[i - 1];
    note_clipped(column.name, targets_[i], kTargetExponent);
  }
  for (const TableEncoder& output : outputs_) {
    for (std::string& note : output.notes()) notes.push_back(std::move(note));
  }
  if (truncated_ > 0) {
    notes.push_back(std::to_string(truncated_) + " texts are cut short: they have more than " +
                    std::to_string(schema_.text->sequence) + " tokens (--sequence)");
  }
  return notes;
}

}  // namespace mantissa
