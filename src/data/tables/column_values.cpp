#include "data/tables/column_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/real_text.h"

namespace mantissa {
namespace {

constexpr double kLargestNumber = 1e150;  // its square is finite
constexpr double kRounding = 0x1p-42;     // differences below this part of the largest are rounding
constexpr size_t kMostMarkers = 8;        // different ones that are named

// a + b = sum + error, exactly (Knuth).
double two_sum(double a, double b, double& error) {
  const double sum = a + b, part = sum - a;
  error = (a - (sum - part)) + (b - part);
  return sum;
}

// a * b = product + error, exactly, without overflow (Veltkamp, Dekker).
double two_product(double a, double b, double& error) {
  constexpr double kSplit = 0x1p27 + 1;
  const auto high_of = [](double x) {
    const double wide = kSplit * x;
    return wide - (wide - x);
  };
  const double product = a * b;
  const double a_high = high_of(a), b_high = high_of(b), a_low = a - a_high, b_low = b - b_high;
  error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
  return product;
}

void add_long(LongSum& sum, double high, double low) {
  double error = 0;
  const double total = two_sum(sum.high, high, error);
  const double rest = error + sum.low + low;
  sum.high = two_sum(total, rest, sum.low);
}

std::string short_text(const TableField& field) {
  return "'" + utf8_text(field.text).substr(0, 40) + "'";
}

// A text as a number in one style, in words: "1642".
std::string value_text(const std::string& text, NumberStyle style) {
  const auto number = number_in(text, style);
  return number ? real_text(number->value) : "no number";
}

}  // namespace

void LongSum::add(double x) { add_long(*this, x, 0); }

void LongSum::add_square(double x) {
  double error = 0;
  const double square = two_product(x, x, error);
  add_long(*this, square, error);
}

void NumberStats::add(const StyledNumber& number) {
  grows = grows && number.is_whole && (count == 0 || number.value > last);
  whole = whole && number.is_whole;
  last = number.value;
  largest = std::max(largest, std::abs(number.value));
  ++count;
  sum.add(number.value);
  squares.add_square(number.value);
}

double NumberStats::mean() const { return count == 0 ? 0 : sum.high / static_cast<double>(count); }

double NumberStats::deviation() const {
  if (count == 0) return 0;
  const auto n = static_cast<double>(count);
  // The mean in two parts, and its product with the sum.
  double error = 0;
  const double mean = sum.high / n;
  const double back = two_product(mean, n, error);
  const double mean_low = ((sum.high - back) - error + sum.low) / n;
  const double square = two_product(sum.high, mean, error);
  LongSum rest = squares;
  add_long(rest, -square, -(error + sum.high * mean_low + sum.low * mean));
  const double deviation = std::sqrt(std::max(0.0, rest.high / n));
  return deviation > kRounding * largest ? deviation : 0;
}

Status ColumnValues::add(const TableField& field, const std::string& name, const TableRows& rows) {
  const bool is_marked = is_target_ && field.kind == FieldKind::kMarker;
  marked += is_marked;
  if (is_marked && marked == 1) {
    first_marker = utf8_text(field.text);
    marker_place = rows.place();
  }
  const bool is_missing = is_target_ ? field.kind == FieldKind::kMissing : field.is_missing();
  if (is_missing) {
    ++missing;
    std::string text = utf8_text(field.text).substr(0, 40);
    if (markers.size() < kMostMarkers || markers.count(text) > 0) ++markers[std::move(text)];
    return {};
  }
  ++count;
  MANTISSA_RETURN_IF_ERROR(add_number(field, name, rows));
  if (!too_many_) remember(field);
  return {};
}

void ColumnValues::remember(const TableField& field) {
  if (field.is_number()) {
    different_numbers_.insert(field.number);
  } else {
    std::string category = category_of(field);
    too_many_ = category.size() > kLongestCategory;
    if (!too_many_) texts_.insert(std::move(category));
  }
  too_many_ = too_many_ || different() > most_;
  if (!too_many_) return;
  texts_.clear();
  different_numbers_.clear();
}

// The numbers of a style. A new style starts with the numbers without separators, which all styles
// read alike, and if it has thousands, also with the numbers of the style without thousands.
NumberStats& ColumnValues::reading(size_t style) {
  if (readings_[style]) return *readings_[style];
  const size_t without_groups = kNumberStyles[style].decimal == '.' ? 0 : 1;
  readings_[style] = readings_[without_groups] ? *readings_[without_groups] : plain_;
  return *readings_[style];
}

Status ColumnValues::add_number(const TableField& field, const std::string& name,
                                const TableRows& rows) {
  std::array<std::optional<StyledNumber>, kNumberStyles.size()> found;
  const bool is_plain = field.text.empty() || !has_separator(field.text);
  if (is_plain) {
    std::optional<StyledNumber> number;
    if (field.is_number()) number = {field.number, field.kind == FieldKind::kWhole, false};
    found.fill(number);
    if (number) plain_.add(*number);
  } else {
    for (size_t i = 0; i < found.size(); ++i) {
      const NumberStyle style = kNumberStyles[i];
      found[i] = number_in(field.text, style);
      const bool is_new = found[i] && (style.group == '\0' || found[i]->is_grouped);
      if (is_new && reading(i).example.empty()) readings_[i]->example = field.text;
    }
  }
  const auto misses = [&](NumberStats& stats) {
    if (!stats.misfit.empty()) return;
    stats.misfit = short_text(field);
    stats.misfit_place = rows.place();
  };
  if (!is_plain || !found[0]) misses(plain_);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] && !(std::abs(found[i]->value) <= kLargestNumber)) {
      return invalid_input(rows.place() + ": column '" + name + "' has a number that is " +
                           (std::isfinite(found[i]->value) ? "larger than 1e150" : "not finite"));
    }
    if (!readings_[i]) continue;
    if (found[i]) {
      readings_[i]->add(*found[i]);
    } else {
      misses(*readings_[i]);
    }
  }
  return {};
}

const NumberStats& ColumnValues::numbers() const {
  return chosen_ < 0 ? plain_ : *readings_[static_cast<size_t>(chosen_)];
}

std::vector<size_t> ColumnValues::best() const {
  int64_t most = plain_.count + 1;  // a reading must have a number of its own
  std::vector<size_t> styles;
  for (size_t i = 0; i < readings_.size(); ++i) {
    if (!readings_[i] || readings_[i]->count < most) continue;
    if (readings_[i]->count > most) styles.clear();
    most = readings_[i]->count;
    styles.push_back(i);
  }
  return styles;
}

std::optional<char> ColumnValues::decimal() const {
  const std::vector<size_t> styles = best();
  if (styles.empty()) return std::nullopt;
  const char sign = kNumberStyles[styles[0]].decimal;
  for (const size_t style : styles) {
    if (kNumberStyles[style].decimal != sign) return std::nullopt;
  }
  return sign;
}

void ColumnValues::choose(char decimal, bool is_told, char separator) {
  const std::vector<size_t> styles = best();
  if (styles.empty()) return;
  if (decimal == '\0') {
    // 1.642 beside 842 is one thousand; 1,642 in a file with commas is, too.
    const bool has_points = readings_[styles[0]]->example.find('.') != std::string::npos;
    decimal = has_points ? (plain_.count > 0 ? ',' : '.') : (separator == ',' ? '.' : ',');
  }
  const auto of_sign = std::find_if(styles.begin(), styles.end(), [&](size_t style) {
    return kNumberStyles[style].decimal == decimal;
  });
  const size_t best = of_sign == styles.end() ? styles[0] : *of_sign;
  chosen_ = static_cast<int>(best);
  for (const size_t other : styles) {
    if (is_told || readings_[other]->sum.high == readings_[best]->sum.high) continue;
    const std::string& text = readings_[best]->example;
    doubt_ = "'" + text + "' is read as " + value_text(text, kNumberStyles[best]) + ", with " +
             describe(kNumberStyles[best]) + "; --decimal " +
             (kNumberStyles[other].decimal == '.' ? "point" : "comma") + " reads " +
             value_text(text, kNumberStyles[other]);
    return;
  }
}

std::vector<std::string> ColumnValues::sorted() const {
  std::vector<double> ascending(different_numbers_.begin(), different_numbers_.end());
  std::sort(ascending.begin(), ascending.end());
  std::vector<std::string> list;
  for (const double number : ascending) {
    list.push_back(category_of({FieldKind::kReal, number, {}}));
  }
  list.insert(list.end(), texts_.begin(), texts_.end());
  return list;
}

TableColumn ColumnValues::column(std::string name, bool as_number) const {
  TableColumn column{.name = std::move(name), .missing = missing};
  if (!as_number) {
    column.categories = sorted();
    return column;
  }
  const NumberStats& stats = numbers();
  column.style = style();
  column.mean = stats.mean();
  column.deviation = stats.deviation();
  // The same in all rows except for rounding errors, which must not become the largest number.
  if (column.deviation == 0) column.deviation = std::max(1.0, stats.largest);
  return column;
}

}  // namespace mantissa
