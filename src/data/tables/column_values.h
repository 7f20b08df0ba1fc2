// The values of a table's column, as its rows are read: the numbers in each style, their count, and
// the other texts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "data/tables/number_style.h"
#include "data/tables/table_rows.h"
#include "data/tables/table_schema.h"

namespace mantissa {

constexpr size_t kLongestCategory = 256;  // bytes; longer texts are no categories

// A sum of doubles with twice their precision, so that means of numbers far from zero are right to
// the last bits (Dekker 1971).
struct LongSum {
  double high = 0, low = 0;
  void add(double x);
  void add_square(double x);
};

// The numbers of a column in one style.
struct NumberStats {
  int64_t count = 0;
  LongSum sum, squares;
  double largest = 0;  // absolute value
  bool whole = true;   // all are
  bool grows = true;   // each is larger than the one before
  double last = 0;
  std::string example;               // the first text with a separator
  std::string misfit, misfit_place;  // the first text that is no number in this style

  void add(const StyledNumber& number);
  double mean() const;
  // 0 if the numbers differ by less than 2^-42 of the largest: that is rounding.
  double deviation() const;
};

class ColumnValues {
 public:
  // At most `most` different values are remembered. In a target only an empty field, or one that
  // the user names, is missing.
  ColumnValues(size_t most, bool is_target) : most_(most), is_target_(is_target) {}

  // An error for a number that is not finite, or too large to be squared.
  Status add(const TableField& field, const std::string& name, const TableRows& rows);

  // The decimal sign that the column has, if that is sure.
  std::optional<char> decimal() const;
  // Chooses the style in which most values are numbers. If two styles are left that read different
  // numbers, takes the one with this decimal sign. If the user told the sign, there is no doubt
  // about it. 0: the sign that is usual in files with this separator.
  void choose(char decimal, bool is_told, char separator);
  const NumberStats& numbers() const;
  NumberStyle style() const { return chosen_ < 0 ? NumberStyle() : kNumberStyles[chosen_]; }
  // "'1.642' is read as 1642 (...)": if another style would read other numbers; or "".
  const std::string& doubt() const { return doubt_; }

  // For columns that are not empty.
  bool is_of_numbers() const { return numbers().count == count; }
  // Whether at most one value in ten is no number.
  bool is_nearly_of_numbers() const { return 10 * (count - numbers().count) <= count; }

  size_t different() const { return texts_.size() + different_numbers_.size(); }
  bool too_many() const { return too_many_; }
  // Whether texts are categories, and not names of single rows.
  bool are_categories() const {
    return !too_many_ && 2 * static_cast<int64_t>(different()) <= count;
  }
  // Numbers by size, then texts byte by byte.
  std::vector<std::string> sorted() const;
  TableColumn column(std::string name, bool as_number) const;

  int64_t count = 0, missing = 0;
  std::map<std::string, int64_t> markers;  // the texts that stand for missing values, a few of them
  int64_t marked = 0;                      // values of a target that usually stand for missing ones
  std::string first_marker, marker_place;

 private:
  Status add_number(const TableField& field, const std::string& name, const TableRows& rows);
  NumberStats& reading(size_t style);
  void remember(const TableField& field);
  std::vector<size_t> best() const;  // styles that read most numbers

  size_t most_;
  bool is_target_;
  NumberStats plain_;  // numbers without separators, which all styles read alike
  std::array<std::optional<NumberStats>, kNumberStyles.size()> readings_;
  int chosen_ = -1;  // -1: no number has a separator
  std::string doubt_;
  bool too_many_ = false;
  std::unordered_set<double> different_numbers_;
  std::set<std::string> texts_;
};

}  // namespace mantissa
