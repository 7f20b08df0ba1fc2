// Rows of text under titles, aligned, in a given width.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.h"

namespace mantissa::cli {

// The layout of a column. Numbers are on the right, text is on the left. If the table would be too
// wide, the start or the end of a text is cut off.
enum class Align { kNumber, kText, kTextCutAtStart, kTextCutAtEnd };

struct Column {
  std::string title;
  Align align = Align::kText;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Lines of at most `width` columns if cutting can achieve that; titles are dimmed.
  std::string text(int width, const Terminal& terminal) const;

 private:
  std::vector<int> widths(int width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mantissa::cli
