#include "data/tables/table_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/real_text.h"

namespace mantissa {
namespace {

constexpr double kExactWhole = 0x1p53;  // whole numbers up to here are exact

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Texts that stand for missing values where programs write tables: pandas and R, SQL and JSON,
// spreadsheets, with their errors, statistics programs, and people.
bool is_marker(std::string_view text) {
  constexpr std::array<std::string_view, 40> kMarkers = {
      "?",      "na",      "n/a",     "n.a.",         "n.a",         "n/a.",    "nan",
      "-nan",   "+nan",    "null",    "none",         "nil",         "<na>",    "<null>",
      "(null)", "nat",     "#n/a",    "#n/a n/a",     "#na",         "#div/0!", "#value!",
      "#ref!",  "#name?",  "#num!",   "#null!",       "#error!",     "#spill!", "#calc!",
      "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",     "\\n",         ".",       "..",
      "-",      "--",      "---",     "\xE2\x80\x93", "\xE2\x80\x94"};
  constexpr size_t kLongest = 9;
  const bool is_short_number = text.find_first_not_of("+-0123456789.") == text.npos &&
                               text.find_first_of("0123456789") != text.npos;
  if (text.size() > kLongest || is_short_number) return false;
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::find(kMarkers.begin(), kMarkers.end(), lower) != kMarkers.end();
}

template <typename T>
double number_at(const NpyArray& array, int64_t i) {
  T number;
  std::memcpy(&number, array.data.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return static_cast<double>(number);
}

// Numbers of an array, one row of it after the other.
struct Cells {
  NpyArray array;
  int64_t columns = 0;
  NumberAt number = nullptr;
  FieldKind kind = FieldKind::kReal;
  std::vector<double> missing;  // numbers that stand for missing values

  Cells(NpyArray from, std::vector<double> none)
      : array(std::move(from)), number(number_reader(array.type)), missing(std::move(none)) {
    const bool is_float = array.type == NpyType::kFloat || array.type == NpyType::kDouble;
    kind = is_float ? FieldKind::kReal : FieldKind::kWhole;
    if (array.shape.empty()) return;
    columns = 1;
    for (size_t i = 1; i < array.shape.size(); ++i) columns *= array.shape[i];
  }
  void add_row(int64_t row, std::vector<TableField>& fields) const {
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double value = number(array, i);
      const bool is_missing =
          std::isnan(value) || std::find(missing.begin(), missing.end(), value) != missing.end();
      fields.push_back({is_missing ? FieldKind::kMissing : kind, value, {}});
    }
  }
};

class ArrayRows : public TableRows {
 public:
  ArrayRows(std::string name, NpyArray x, NpyArray y, const std::string& target,
            const std::vector<double>& missing)
      : name_(std::move(name)),
        x_(std::move(x), missing),
        y_(std::move(y), missing),
        rows_(x_.array.shape[0]) {
    for (int64_t i = 0; i < x_.columns; ++i) names_.push_back(std::to_string(i + 1));
    if (y_.columns == 1) names_.push_back(target);
    for (int64_t i = 0; y_.columns > 1 && i < y_.columns; ++i) {
      names_.push_back(target + std::to_string(i + 1));
      targets_.push_back(names_.back());
    }
  }

  const std::vector<std::string>& names() const override { return names_; }

  Result<std::span<const TableField>> next() override {
    fields_.clear();
    if (row_ < rows_) {
      x_.add_row(row_, fields_);
      y_.add_row(row_, fields_);
      ++row_;
    }
    return std::span<const TableField>(fields_);
  }

  std::string place() const override {
    return row_ == 0 ? name_ : name_ + ", row " + std::to_string(row_ - 1);
  }
  std::vector<std::string> targets() const override { return targets_; }

 private:
  std::string name_;
  Cells x_, y_;
  int64_t rows_, row_ = 0;
  std::vector<std::string> names_, targets_;
  std::vector<TableField> fields_;
};

}  // namespace

NumberAt number_reader(NpyType type) {
  switch (type) {
    case NpyType::kBool:
    case NpyType::kUint8:
      return number_at<uint8_t>;
    case NpyType::kInt8:
      return number_at<int8_t>;
    case NpyType::kInt16:
      return number_at<int16_t>;
    case NpyType::kInt32:
      return number_at<int32_t>;
    case NpyType::kInt64:
      return number_at<int64_t>;
    case NpyType::kUint16:
      return number_at<uint16_t>;
    case NpyType::kUint32:
      return number_at<uint32_t>;
    case NpyType::kUint64:
      return number_at<uint64_t>;
    case NpyType::kFloat:
      return number_at<float>;
    case NpyType::kDouble:
      break;
  }
  return number_at<double>;
}

TableField read_field(std::string_view text) {
  text = trimmed(text);
  TableField field{.kind = FieldKind::kText, .text = text};
  if (text.empty()) {
    field.kind = FieldKind::kMissing;
  } else if (is_marker(text)) {
    field.kind = FieldKind::kMarker;
  } else if (const auto number = number_in(text, {})) {
    field.kind = number->is_whole ? FieldKind::kWhole : FieldKind::kReal;
    field.number = number->value;
  }
  return field;
}

bool is_told_missing(const TableField& field, const TableFormat& format) {
  return std::any_of(format.missing.begin(), format.missing.end(), [&](const std::string& text) {
    if (field.text == text) return true;
    const TableField told = read_field(text);
    return told.is_number() && field.is_number() && told.number == field.number;
  });
}

TableField field_in(const TableField& field, NumberStyle style) {
  if (field.is_missing() || !has_separator(field.text)) return field;
  auto number = number_in(field.text, style);
  if (!number) number = clear_number(field.text);
  if (!number) return {FieldKind::kText, 0, field.text};
  return {number->is_whole ? FieldKind::kWhole : FieldKind::kReal, number->value, field.text};
}

std::string category_of(const TableField& field) {
  if (!field.is_number()) return utf8_text(field.text);
  const bool exact =
      field.number == std::floor(field.number) && std::abs(field.number) < kExactWhole;
  return exact ? std::to_string(static_cast<int64_t>(field.number)) : real_text(field.number);
}

std::string utf8_text(std::string_view text) {
  std::string utf8(text);
  // Names and classes are parts of messages, which have one line.
  std::replace_if(
      utf8.begin(), utf8.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  const auto is_ascii = [](unsigned char c) { return c < 0x80; };
  if (std::all_of(utf8.begin(), utf8.end(), is_ascii)) return utf8;
  try {
    (void)nlohmann::json(utf8).dump();
    return utf8;
  } catch (const nlohmann::json::exception&) {
    std::string converted;
    for (const unsigned char c : utf8) {
      if (c >= 0x80) converted += static_cast<char>(0xc0 | (c >> 6));
      converted += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3f));
    }
    return converted;
  }
}

Error odd_value(const std::string& place, const std::string& column, const std::string& value) {
  return invalid_input(place + ": column '" + column + "' is of numbers, and has " + value +
                       "; correct it, or train with --missing " + value +
                       " (a missing value) or --ignore '" + column + "'");
}

Result<size_t> find_column(const std::vector<std::string>& names, const std::string& name,
                           const std::string& subject) {
  constexpr size_t kMostListed = 20;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  std::string list;
  for (size_t i = 0; i < std::min(kMostListed, names.size()); ++i) {
    list += (i > 0 ? ", " : "") + names[i];
  }
  return invalid_input(subject + "there is no column '" + name + "'; there are " + list +
                       (names.size() > kMostListed ? ", ..." : ""));
}

Result<std::unique_ptr<TableRows>> array_rows(std::string name, NpyArray x, NpyArray y,
                                              const TableFormat& format,
                                              const std::string& target) {
  const auto shape = [](const NpyArray& array) {
    std::string text;
    for (const int64_t dim : array.shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
    return "'" + array.name + "' [" + text + "]";
  };
  if (x.shape.empty()) return invalid_input(name + ": " + shape(x) + " has no rows");
  if (!y.name.empty() && (y.shape.empty() || y.shape[0] != x.shape[0])) {
    return invalid_input(name + ": " + shape(x) + " and " + shape(y) +
                         " do not have as many rows as each other");
  }
  constexpr int64_t kMostTargets = 4096;
  const bool are_columns = y.shape.size() == 1 || (y.shape.size() == 2 && y.shape[1] >= 1 &&
                                                   y.shape[1] <= kMostTargets);
  if (!y.name.empty() && !are_columns) {
    return invalid_input(name + ": " + shape(y) + " has not one number for each row, or [N, K]" +
                         (y.shape.size() > 2 ? "; a class for each place is for networks that "
                                               "give one to each (docs/data.md)"
                                             : ""));
  }
  std::vector<double> missing;
  for (const std::string& text : format.missing) {
    if (const TableField field = read_field(text); field.is_number()) {
      missing.push_back(field.number);
    }
  }
  return std::unique_ptr<TableRows>(
      std::make_unique<ArrayRows>(std::move(name), std::move(x), std::move(y), target, missing));
}

}  // namespace mantissa
