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
#include "data/tables/number_style.h"
#include "data/tables/table_schema.h"
#include "formats/arrays/npy.h"

namespace mantissa {

// A marker is a text that usually stands for a missing value: in a target it may be a class.
enum class FieldKind : uint8_t { kMissing, kMarker, kWhole, kReal, kText };

struct TableField {
  FieldKind kind = FieldKind::kMissing;
  double number = 0;      // of kWhole and kReal
  std::string_view text;  // as it stands in the file; empty in arrays

  bool is_number() const { return kind == FieldKind::kWhole || kind == FieldKind::kReal; }
  bool is_missing() const { return kind == FieldKind::kMissing || kind == FieldKind::kMarker; }
};

// The kind of a field's text, with numbers as programs write them, 1234.5. A field is missing if
// it is empty or white space. Markers are the ones of pandas, R, SQL, spreadsheets and statistics
// programs, in any case: ?, NA, n.a., nan, null, none, #N/A, \N, - and others.
TableField read_field(std::string_view text);
// The same if the user names more of them: these are missing.
bool is_told_missing(const TableField& field, const TableFormat& format);

// The field read in the style of its column's numbers: 1.642 may be 1642. A text that is a number
// only in another style is that number.
TableField field_in(const TableField& field, NumberStyle style);

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
  // The columns that are predicted if nobody names others; none: the usual one.
  virtual std::vector<std::string> targets() const { return {}; }
  // Guesses, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
  // Between fields of a file.
  virtual char separator() const { return ','; }
};

// The index of a column. The error for a missing column begins with `subject`, and lists the names.
Result<size_t> find_column(const std::vector<std::string>& names, const std::string& name,
                           const std::string& subject);

// An error for a text in a column of numbers, in training rows as in others: `value` is quoted.
Error odd_value(const std::string& place, const std::string& column, const std::string& value);

// The rows of a CSV file. The format, or a guess (header_guess.h), says whether its first row holds
// the names. Without names columns are called 1, 2, ... Errors name the line: a row with more or
// fewer fields than the first, two columns of one name; errors of CsvReader.
Result<std::unique_ptr<TableRows>> open_csv_rows(const std::filesystem::path& path,
                                                 const TableFormat& format = {});

// Reads a number of an array of some type.
using NumberAt = double (*)(const NpyArray& array, int64_t i);
NumberAt number_reader(NpyType type);

// The rows of arrays x [rows, ...] and, if it is there, y [rows]: columns called 1, 2, ..., then as
// `target` says. `name` begins errors.
Result<std::unique_ptr<TableRows>> array_rows(std::string name, NpyArray x, NpyArray y,
                                              const TableFormat& format = {},
                                              const std::string& target = "y");

}  // namespace mantissa
