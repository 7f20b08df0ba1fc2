// Rows of tables, one after the other, from files of text or arrays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/npy.h"

namespace mantissa {

enum class FieldKind : uint8_t { kMissing, kWhole, kReal, kText };

struct TableField {
  FieldKind kind = FieldKind::kMissing;
  double number = 0;      // of kWhole and kReal
  std::string_view text;  // as it stands in the file; empty in arrays

  bool is_number() const { return kind == FieldKind::kWhole || kind == FieldKind::kReal; }
};

// The kind of a field's text. Missing are: nothing, ?, NA, N/A, nan, null and none, in any case.
// `comma`: numbers may have a decimal comma.
TableField read_field(std::string_view text, bool comma);

// The category or class that a field names: whole numbers alike however they are written, texts in
// UTF-8 (others are taken for Latin-1).
std::string category_of(const TableField& field);

// A text as UTF-8, in one line: others are taken for Latin-1.
std::string utf8_text(std::string_view text);

class TableRows {
 public:
  virtual ~TableRows() = default;

  // The columns' names. They are different.
  virtual const std::vector<std::string>& names() const = 0;
  // The next row, valid until the next call; none after the last.
  virtual Result<std::span<const TableField>> next() = 0;
  // "'a.csv', line 7": the last row.
  virtual std::string place() const = 0;
};

// The place of a column. The error that there is none begins with `subject`, and lists names.
Result<size_t> find_column(const std::vector<std::string>& names, const std::string& name,
                           const std::string& subject);

// The rows of a CSV file. Its first row holds the names unless one of its fields is a number;
// without names columns are called 1, 2, ... Errors name the line: a row with more or fewer fields
// than the first, two columns of one name; those of CsvReader.
Result<std::unique_ptr<TableRows>> open_csv_rows(const std::filesystem::path& path);

// The rows of arrays x [rows, ...] and, if it is there, y [rows]: columns called 1, 2, ..., and y
// behind them. `name` begins errors.
Result<std::unique_ptr<TableRows>> array_rows(std::string name, NpyArray x, NpyArray y);

}  // namespace mantissa
