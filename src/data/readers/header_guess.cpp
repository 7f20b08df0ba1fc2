#include "data/readers/header_guess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "data/tables/table_rows.h"

namespace mantissa {
namespace {

// The evidence that a column gives about its first field.
enum class Evidence : uint8_t { kNone, kTextAboveNumbers, kNewText, kNumberAboveTexts, kRepeated };

struct ColumnBelow {
  int64_t numbers = 0, texts = 0;
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  std::set<std::string> different;
};

bool is_number(const std::string& text) {
  return read_field(text).is_number() || clear_number(text).has_value();
}

// A text that is a name or a value but not a number.
bool is_text(const std::string& text) {
  const TableField field = read_field(text);
  return !text.empty() && !field.is_missing() && !is_number(text);
}

std::optional<int64_t> whole_number(const std::string& text) {
  const TableField field = read_field(text);
  if (field.kind != FieldKind::kWhole || std::abs(field.number) > 1e15) return std::nullopt;
  return static_cast<int64_t>(field.number);
}

ColumnBelow column_below(size_t column, std::span<const RowTexts> rows) {
  ColumnBelow below;
  for (const RowTexts& row : rows) {
    if (column >= row.size()) continue;
    const std::string& text = row[column];
    const TableField field = read_field(text);
    if (field.is_missing()) continue;
    const auto number = field.is_number() ? std::optional(StyledNumber{field.number, false, false})
                                          : clear_number(text);
    number ? ++below.numbers : ++below.texts;
    below.different.insert(text);
    if (!number) continue;
    below.smallest = std::min(below.smallest, number->value);
    below.largest = std::max(below.largest, number->value);
  }
  return below;
}

Evidence evidence_of(const std::string& first, const ColumnBelow& below) {
  const int64_t values = below.numbers + below.texts;
  if (values == 0 || read_field(first).is_missing()) return Evidence::kNone;
  const bool of_numbers = 2 * below.numbers > values;
  if (is_number(first)) {
    return below.numbers > 0 ? Evidence::kNone : Evidence::kNumberAboveTexts;
  }
  if (of_numbers) return Evidence::kTextAboveNumbers;
  if (below.different.count(first) > 0) return Evidence::kRepeated;
  const bool others_repeat = 2 * static_cast<int64_t>(below.different.size()) <= values;
  return others_repeat ? Evidence::kNewText : Evidence::kNone;
}

// Whether whole numbers go on by one step, at least `least` of them. Fields that are no numbers are
// passed over.
bool goes_on(const RowTexts& row, size_t least) {
  std::vector<int64_t> numbers;
  for (const std::string& text : row) {
    if (const auto number = whole_number(text)) numbers.push_back(*number);
  }
  if (numbers.size() < least) return false;
  const int64_t step = numbers[1] - numbers[0];
  for (size_t i = 2; i < numbers.size(); ++i) {
    if (numbers[i] - numbers[i - 1] != step) return false;
  }
  return step > 0;
}

// 0, 1, 2, ..., with nothing before it but an empty name.
bool are_default_names(const RowTexts& first) {
  const size_t begin = !first.empty() && first[0].empty() ? 1 : 0;
  for (size_t i = begin; i < first.size(); ++i) {
    if (first[i] != std::to_string(i - begin)) return false;
  }
  return first.size() >= begin + 2;
}

// Whether the numbers of a row can be names, if texts above them do not decide: whole numbers that
// all differ, or that grow from one to the next.
bool can_be_names(const RowTexts& first) {
  std::vector<double> numbers;
  bool whole = true;
  for (const std::string& text : first) {
    if (!is_number(text)) continue;
    whole = whole && whole_number(text) >= 0;
    numbers.push_back(read_field(text).number);
  }
  if (std::is_sorted(numbers.begin(), numbers.end(), std::less_equal<>())) return true;
  return whole && std::set<double>(numbers.begin(), numbers.end()).size() == numbers.size();
}

// Whether a number of the first row lies well beyond those below it.
bool lies_beyond(const RowTexts& first, std::span<const ColumnBelow> below) {
  for (size_t i = 0; i < first.size(); ++i) {
    const auto number = whole_number(first[i]);
    if (!number || below[i].numbers == 0) continue;
    const double range = below[i].largest - below[i].smallest;
    const auto value = static_cast<double>(*number);
    if (value > below[i].largest + range || value < below[i].smallest - range) return true;
  }
  return false;
}

bool is_usual_name(const std::string& text) {
  constexpr std::array<const char*, 12> kNames = {"label", "target", "class",   "y",
                                                  "text",  "id",     "name",    "split",
                                                  "file",  "image",  "species", "title"};
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::find(kNames.begin(), kNames.end(), lower) != kNames.end();
}

// If the columns do not decide.
bool looks_like_names(const RowTexts& first, std::span<const RowTexts> rows,
                      std::span<const ColumnBelow> below) {
  const bool any_number = std::any_of(first.begin(), first.end(), is_number);
  if (!any_number || are_default_names(first)) return true;
  if (rows.empty() || !can_be_names(first)) return false;
  const bool rows_go_on =
      std::any_of(rows.begin(), rows.end(), [](const RowTexts& row) { return goes_on(row, 2); });
  if (goes_on(first, 3) && !rows_go_on) return true;
  return std::any_of(first.begin(), first.end(), is_text) && lies_beyond(first, below);
}

}  // namespace

HeaderGuess guess_header(const RowTexts& first, std::span<const RowTexts> rows) {
  std::array<int64_t, 5> found{};
  std::vector<ColumnBelow> below;
  for (size_t i = 0; i < first.size(); ++i) {
    below.push_back(column_below(i, rows));
    ++found[static_cast<size_t>(evidence_of(first[i], below[i]))];
  }
  const auto any = [&](Evidence kind) { return found[static_cast<size_t>(kind)] > 0; };
  const bool any_number = std::any_of(first.begin(), first.end(), is_number);
  const bool is_usual = std::any_of(first.begin(), first.end(), is_usual_name);
  if (any(Evidence::kTextAboveNumbers)) return {true, !any_number};
  if (any(Evidence::kRepeated)) return {false, false};
  const bool above_texts = any(Evidence::kNewText) || any(Evidence::kNumberAboveTexts);
  if (above_texts && can_be_names(first)) return {true, !any_number && is_usual};
  return {looks_like_names(first, rows, below), !any_number && is_usual};
}

}  // namespace mantissa
