// Rows of tables as networks take them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "data/tables/table_rows.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// The known target of a row, if it has one.
struct TableTarget {
  bool is_known = false;
  int64_t label = -1;            // of classes
  std::vector<double> numbers;   // of regression, one for each target
  std::vector<uint16_t> labels;  // of several labels: 0 or 1 for each
  std::vector<TableTarget> outputs = {};  // of a network with several outputs, in place of these
};

// Rows as a network takes them. Columns are found by name; there may be more.
class TableEncoder {
 public:
  // Its arguments outlive it. An error names the first column that is not there; the target
  // may be missing.
  static Result<TableEncoder> create(const TableSchema& schema, const TableRows& rows);

  // The tokens of the text, followed by kNoToken; a text that is longer than the sequence is cut.
  // Or the mantissas of the inputs: 0 if a value is missing, or is none of the column's categories.
  // An error names the line: a text in a column of numbers.
  Status append_inputs(std::span<const TableField> row, std::vector<int16_t>& numbers);

  // Known if all targets are. An error for an unknown class, or for a text in place of a number.
  Result<TableTarget> target(std::span<const TableField> row);

  bool has_target() const { return !targets_.empty() || !outputs_.empty(); }
  int64_t truncated() const { return truncated_; }  // texts that were cut short
  // Notes, a line each, about values that the network does not get: texts that are none of a
  // column's categories, and numbers that were clipped.
  std::vector<std::string> notes() const;

 private:
  struct Place {
    size_t place = 0;                                  // of the column in a row
    std::unordered_map<std::string, int64_t> numbers;  // of its categories
    int64_t unknown = 0, clipped = 0;                  // values so far
    std::string first_unknown = {};
  };
  TableEncoder(const TableSchema& schema, const TableRows& rows) : schema_(schema), rows_(rows) {}
  static std::unordered_map<std::string, int64_t> numbers_of(const TableColumn& column);
  Status append_text(const TableField& field, std::vector<int16_t>& numbers);
  static bool is_odd(const TableField& field);
  int16_t mantissa(double number, const TableColumn& column, int exponent, Place& place);
  Error wrong(const TableColumn& column, const TableField& field) const;
  Status add_target(const TableColumn& column, const TableField& field, Place& place,
                    TableTarget& target);

  const TableSchema& schema_;
  const TableRows& rows_;
  std::vector<Place> columns_;
  std::vector<Place> targets_;  // of all targets, or none
  std::vector<TableEncoder> outputs_;  // encode the targets of several outputs; all, or none
  size_t text_ = 0;  // of the text's column in a row
  int64_t truncated_ = 0;
};

}  // namespace mantissa
