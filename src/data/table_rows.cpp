#include "data/table_rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/atomic_file.h"
#include "base/file_system.h"
#include "base/real_text.h"
#include "data/readers.h"
#include "formats/csv.h"

namespace mantissa {
namespace {

constexpr double kExactWhole = 0x1p53;  // whole numbers up to here are what they say

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool is_missing(std::string_view text) {
  constexpr std::array<std::string_view, 7> kMissing = {"",    "?",    "na",  "n/a",
                                                        "nan", "null", "none"};
  if (text.size() > 4) return false;
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::find(kMissing.begin(), kMissing.end(), lower) != kMissing.end();
}

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A number as its text says, rounded to nearest; infinite where it is too large. False if the text
// is none.
bool parse_number(std::string_view text, double& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || std::isnan(number)) return false;
  if (error == std::errc::result_out_of_range) {
    number = text.find("e-") != text.npos || text.find("E-") != text.npos
                 ? 0
                 : std::numeric_limits<double>::infinity();
    return true;
  }
  return error == std::errc{};
}

class CsvRows : public TableRows {
 public:
  explicit CsvRows(const std::filesystem::path& path)
      : name_(quoted(path)), file_(path, std::ios::binary), reader_(file_, name_) {}

  bool is_open() const { return file_.is_open(); }

  Status begin() {
    MANTISSA_ASSIGN(const auto first, reader_.next());
    if (first.empty()) return invalid_input(name_ + ": is empty");
    read(first);
    const bool is_header = std::none_of(fields_.begin(), fields_.end(),
                                        [](const TableField& f) { return f.is_number(); });
    std::set<std::string_view> seen;
    names_.reserve(first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      names_.push_back(is_header ? utf8_text(trimmed(first[i])) : std::to_string(i + 1));
      if (names_[i].empty() || seen.insert(names_[i]).second) continue;
      return invalid_input(place() + ": two columns are called '" + names_[i] + "'");
    }
    waiting_ = !is_header;
    return {};
  }

  const std::vector<std::string>& names() const override { return names_; }

  Result<std::span<const TableField>> next() override {
    if (!std::exchange(waiting_, false)) {
      MANTISSA_ASSIGN(const auto row, reader_.next());
      if (!row.empty() && row.size() != names_.size()) {
        return invalid_input(place() + ": has " + std::to_string(row.size()) +
                             " fields, and the first row " + std::to_string(names_.size()));
      }
      read(row);
    }
    return std::span<const TableField>(fields_);
  }

  std::string place() const override { return name_ + ", line " + std::to_string(reader_.line()); }

 private:
  void read(std::span<const std::string_view> row) {
    fields_.clear();
    for (const std::string_view text : row) {
      fields_.push_back(read_field(text, reader_.separator() != ','));
    }
  }

  std::string name_;
  std::ifstream file_;
  CsvReader reader_;
  std::vector<std::string> names_;
  std::vector<TableField> fields_;
  bool waiting_ = false;  // the first row is data, and has not been given yet
};

template <typename T>
double number_at(const NpyArray& array, int64_t i) {
  T number;
  std::memcpy(&number, array.data.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return static_cast<double>(number);
}

using NumberAt = double (*)(const NpyArray&, int64_t);
NumberAt reader_of(NpyType type) {
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

// Numbers of an array, one row of it after the other.
struct Cells {
  NpyArray array;
  int64_t columns = 0;
  NumberAt number = nullptr;
  FieldKind kind = FieldKind::kReal;

  explicit Cells(NpyArray from) : array(std::move(from)), number(reader_of(array.type)) {
    const bool is_float = array.type == NpyType::kFloat || array.type == NpyType::kDouble;
    kind = is_float ? FieldKind::kReal : FieldKind::kWhole;
    if (array.shape.empty()) return;
    columns = 1;
    for (size_t i = 1; i < array.shape.size(); ++i) columns *= array.shape[i];
  }
  void add_row(int64_t row, std::vector<TableField>& fields) const {
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double value = number(array, i);
      fields.push_back({std::isnan(value) ? FieldKind::kMissing : kind, value, {}});
    }
  }
};

class ArrayRows : public TableRows {
 public:
  ArrayRows(std::string name, NpyArray x, NpyArray y)
      : name_(std::move(name)), x_(std::move(x)), y_(std::move(y)), rows_(x_.array.shape[0]) {
    for (int64_t i = 0; i < x_.columns; ++i) names_.push_back(std::to_string(i + 1));
    if (y_.columns > 0) names_.emplace_back("y");
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

  std::string place() const override { return name_ + ", row " + std::to_string(row_ - 1); }

 private:
  std::string name_;
  Cells x_, y_;
  int64_t rows_, row_ = 0;
  std::vector<std::string> names_;
  std::vector<TableField> fields_;
};

}  // namespace

TableField read_field(std::string_view text, bool comma) {
  text = trimmed(text);
  TableField field{.kind = FieldKind::kText, .text = text};
  if (is_missing(text)) {
    field.kind = FieldKind::kMissing;
    return field;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  const char first =
      text.empty() ? '\0' : text[text.starts_with('-') ? std::min<size_t>(1, text.size() - 1) : 0];
  if (first != '.' && first != ',' && first != 'i' && first != 'I' &&
      (first < '0' || first > '9')) {
    return field;
  }
  std::array<char, 64> point;
  const size_t at = comma ? text.find(',') : text.npos;
  if (at != text.npos && text.find('.') == text.npos && text.size() < point.size()) {
    std::copy(text.begin(), text.end(), point.begin());
    point[at] = '.';
    text = {point.data(), text.size()};
  }
  if (parse_number(text, field.number)) {
    field.kind = is_whole(text) ? FieldKind::kWhole : FieldKind::kReal;
  }
  return field;
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

Result<std::unique_ptr<TableRows>> open_csv_rows(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const InputFile checked, InputFile::open(path));  // a pipe would be waited for
  auto rows = std::make_unique<CsvRows>(path);
  if (!rows->is_open()) return file_error("open", path, errno);
  MANTISSA_RETURN_IF_ERROR(rows->begin());
  return std::unique_ptr<TableRows>(std::move(rows));
}

Result<std::unique_ptr<TableRows>> array_rows(std::string name, NpyArray x, NpyArray y) {
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
  const bool is_column = y.shape.size() == 1 || (y.shape.size() == 2 && y.shape[1] == 1);
  if (!y.name.empty() && !is_column) {
    return invalid_input(name + ": " + shape(y) + " has not one number for each row");
  }
  return std::unique_ptr<TableRows>(
      std::make_unique<ArrayRows>(std::move(name), std::move(x), std::move(y)));
}

}  // namespace mantissa
