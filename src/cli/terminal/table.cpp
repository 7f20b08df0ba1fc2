#include "cli/terminal/table.h"

#include <algorithm>
#include <numeric>

#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

constexpr int kNarrowest = 8;  // least width of a column that is cut
constexpr const char* kCutMark = "..";

bool can_be_cut(Align align) {
  return align == Align::kTextCutAtStart || align == Align::kTextCutAtEnd;
}

std::string laid_out(const std::string& text, int width, Align align) {
  if (align == Align::kNumber) return pad_left(text, width);
  if (columns(text) <= width) return pad_right(text, width);
  if (align == Align::kTextCutAtEnd) return shortened(text, width - 2) + kCutMark;
  // Names are ASCII: bytes are columns.
  return kCutMark + text.substr(text.size() - static_cast<size_t>(width - 2));
}

}  // namespace

std::vector<int> Table::widths(int width) const {
  std::vector<int> result;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int widest = columns(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, columns(row[i]));
    result.push_back(widest);
  }
  const auto spaces = static_cast<int>(columns_.size()) - 1;
  int excess = std::accumulate(result.begin(), result.end(), spaces) - width;
  for (; excess > 0; --excess) {
    int* widest = nullptr;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!can_be_cut(columns_[i].align) || result[i] <= kNarrowest) continue;
      if (widest == nullptr || result[i] > *widest) widest = &result[i];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  return result;
}

std::string Table::text(int width, const Terminal& terminal) const {
  const std::vector<int> sizes = widths(width);
  const auto line = [&](const auto& cell) {
    std::string whole;
    for (size_t i = 0; i < columns_.size(); ++i) {
      whole += (i == 0 ? "" : " ") + laid_out(cell(i), sizes[i], columns_[i].align);
    }
    whole.erase(whole.find_last_not_of(' ') + 1);
    return whole;
  };
  std::string all = terminal.paint("2", line([&](size_t i) { return columns_[i].title; })) + "\n";
  for (const auto& row : rows_) all += line([&](size_t i) { return row[i]; }) + "\n";
  return all;
}

}  // namespace mantissa::cli
