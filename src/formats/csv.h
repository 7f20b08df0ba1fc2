// CSV files, row by row: RFC 4180, with commas, semicolons or tabs, as spreadsheets and pandas
// write them (docs/decisions/0079-tables.md).
#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct CsvLimits {
  size_t row_bytes = size_t{16} << 20;
  size_t fields = 65536;  // of a row
};

// Reads UTF-8 (or any text of single bytes), with a byte order mark or without. Lines end with LF,
// CR LF or CR; empty ones are passed over. A field in quotes may hold separators, line ends and
// doubled quotes. Memory: a row, and a block of the file.
class CsvReader {
 public:
  // Errors begin with `name`, the file's. Both outlive the reader.
  CsvReader(std::istream& file, const std::string& name, const CsvLimits& limits = {});

  // The next row's fields, valid until the next call; none after the last row. Errors name the
  // line: a row beyond the limits, a quote that does not end or is followed by text, bytes that are
  // no text.
  Result<std::span<const std::string_view>> next();

  // The line on which the last row began, from 1.
  int64_t line() const { return row_line_; }
  // The separator that a first line "sep=;" names; else the most frequent of , ; and tab in the
  // first row.
  char separator() const { return separator_; }

 private:
  static constexpr int kEnd = -1;

  int peek();
  int take();
  Status read_row();
  Status read_quoted();
  Status begin();
  Error at_line(int64_t line, const std::string& fault) const;

  std::istream& file_;
  const std::string& name_;
  CsvLimits limits_;
  std::vector<char> block_;
  size_t at_ = 0, end_ = 0;  // in the block
  bool begun_ = false;
  char separator_ = ',';
  int64_t line_ = 1, row_line_ = 0;
  std::string row_;           // the text of the row's fields, one after the other
  std::vector<size_t> ends_;  // where each ends in it
  std::vector<std::string_view> fields_;
};

}  // namespace mantissa
