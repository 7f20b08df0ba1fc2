#include "data/table_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/random.h"
#include "data/dataset.h"
#include "data/row_weights.h"

namespace mantissa {
namespace {

constexpr uint64_t kPartRows = 5;         // one row in so many is kept for testing
constexpr size_t kMostCategories = 256;   // of an input; more are no categories
constexpr size_t kLongestCategory = 256;  // bytes; longer texts are none
constexpr int64_t kMostFeatures = 65536;  // of a table
constexpr size_t kMostWholeClasses = 64;  // whole numbers that are taken for classes
constexpr std::array<const char*, 4> kTargetNames = {"label", "target", "class", "y"};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return text;
}

// The values of a column. Mean and deviation by Welford's recurrence, in the rows' order: the same
// bits everywhere.
class ColumnValues {
 public:
  explicit ColumnValues(size_t most) : most_(most) {}

  Status add(const TableField& field, const std::string& name, const TableRows& rows) {
    if (field.kind == FieldKind::kMissing) {
      ++missing;
      return {};
    }
    ++count;
    if (!field.is_number() && numbers) {
      numbers = false;
      first_text = "'" + category_of(field).substr(0, 40) + "', " + rows.place();
    }
    whole = whole && field.kind == FieldKind::kWhole;
    if (field.is_number()) {
      if (!std::isfinite(field.number)) {
        return invalid_input(rows.place() + ": column '" + name +
                             "' has a number that is not finite");
      }
      const double step = field.number - mean;
      mean += step / static_cast<double>(count);
      squares += step * (field.number - mean);
    }
    if (too_many) return {};
    if (field.is_number()) {
      different_numbers.insert(field.number);
    } else {
      std::string category = category_of(field);
      too_many = category.size() > kLongestCategory;
      if (!too_many) texts.insert(std::move(category));
    }
    too_many = too_many || different() > most_;
    if (too_many) {
      texts.clear();
      different_numbers.clear();
    }
    return {};
  }

  size_t different() const { return texts.size() + different_numbers.size(); }

  // Numbers by size, and behind them texts byte by byte.
  std::vector<std::string> sorted() const {
    std::vector<double> ascending(different_numbers.begin(), different_numbers.end());
    std::sort(ascending.begin(), ascending.end());
    std::vector<std::string> list;
    for (const double number : ascending) {
      list.push_back(category_of({FieldKind::kReal, number, {}}));
    }
    list.insert(list.end(), texts.begin(), texts.end());
    return list;
  }

  TableColumn column(std::string name, bool as_number) const {
    TableColumn column{.name = std::move(name), .missing = missing};
    if (!as_number) {
      column.categories = sorted();
      return column;
    }
    column.mean = mean;
    const double variance = count > 0 ? squares / static_cast<double>(count) : 0;
    column.deviation = std::sqrt(variance);
    // What rounding makes of one number is no deviation: a sum of as many terms has as much.
    const double rounding =
        static_cast<double>(count) * std::numeric_limits<double>::epsilon() * std::abs(mean);
    if (!(column.deviation > rounding) || !std::isfinite(column.deviation)) column.deviation = 1;
    return column;
  }

  int64_t count = 0, missing = 0;
  bool numbers = true, whole = true, too_many = false;
  std::string first_text;  // where the column is not of numbers
  double mean = 0, squares = 0;
  std::unordered_set<double> different_numbers;
  std::set<std::string> texts;

 private:
  size_t most_;
};

// The target that nobody names: a column that is called so, or the last but for that of weights.
size_t usual_target(const std::vector<std::string>& names, std::optional<size_t> weights) {
  for (const char* name : kTargetNames) {
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const std::string& one) { return lower(one) == name; });
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
  }
  const bool is_last = weights == names.size() - 1 && names.size() > 1;
  return names.size() - (is_last ? 2 : 1);
}

struct ChosenColumns {
  std::vector<size_t> inputs;
  size_t target = 0;
  std::optional<size_t> weights;
};

// The columns that are no inputs: those that are ignored, and that of weights.
Result<std::set<size_t>> other_columns(const TableRows& rows, const TableChoices& choices,
                                       ChosenColumns& chosen, std::vector<std::string>& notes) {
  const std::vector<std::string>& names = rows.names();
  std::set<size_t> ignored;
  for (size_t begin = 0; begin < choices.ignore.size();) {
    const size_t end = std::min(choices.ignore.find(',', begin), choices.ignore.size());
    MANTISSA_ASSIGN(const size_t column,
                    find_column(names, choices.ignore.substr(begin, end - begin), "ignore: "));
    ignored.insert(column);
    begin = end + 1;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty() || !ignored.insert(i).second) continue;
    notes.push_back("column " + std::to_string(i + 1) +
                    " has no name, as numbers of rows have none: it is left out");
  }
  if (choices.weights.empty()) return ignored;
  MANTISSA_ASSIGN(chosen.weights, find_column(names, choices.weights, "row-weights: "));
  if (ignored.insert(*chosen.weights).second) return ignored;
  return invalid_input("row-weights: the column '" + choices.weights + "' is ignored");
}

Result<ChosenColumns> choose_columns(const TableRows& rows, const TableChoices& choices,
                                     std::vector<std::string>& notes) {
  const std::vector<std::string>& names = rows.names();
  ChosenColumns chosen;
  MANTISSA_ASSIGN(const std::set<size_t> ignored, other_columns(rows, choices, chosen, notes));
  chosen.target = usual_target(names, chosen.weights);
  if (!choices.target.empty()) {
    const bool is_there = std::find(names.begin(), names.end(), choices.target) != names.end();
    if (!is_there && choices.target.find(',') != std::string::npos) {
      return invalid_input("target: '" + choices.target +
                           "' names several columns, and one is predicted of a table; several " +
                           "labels of an example are learned from Python (docs/python.md)");
    }
    MANTISSA_ASSIGN(chosen.target, find_column(names, choices.target, "target: "));
  }
  if (chosen.weights == chosen.target) {
    return invalid_input("row-weights: the column '" + choices.weights +
                         "' is the target; --target names another");
  }
  if (ignored.count(chosen.target) > 0) {
    return invalid_input("target: the column '" + names[chosen.target] +
                         "' is ignored; --target names another");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (i != chosen.target && ignored.count(i) == 0) chosen.inputs.push_back(i);
  }
  if (chosen.inputs.empty() && names.size() > 1) {
    return invalid_input("no column is left but the target '" + names[chosen.target] + "'");
  }
  if (chosen.inputs.empty()) {
    return invalid_input(rows.place() + ": there is one column alone, '" + names[chosen.target] +
                         "'; columns are separated by commas, semicolons or tabs");
  }
  return chosen;
}

// The column of texts among the inputs.
Result<TextColumn> text_column(const std::vector<std::string>& names,
                               const std::vector<size_t>& inputs, const TextColumn& choice) {
  constexpr const char* kUsualName = "text";
  TextColumn column = choice;
  MANTISSA_RETURN_IF_ERROR(check_text_column(column));
  const auto place = [&](const std::string& name) {
    return std::find_if(inputs.begin(), inputs.end(),
                        [&](size_t i) { return lower(names[i]) == lower(name); });
  };
  if (!column.name.empty()) {
    MANTISSA_ASSIGN(const size_t named, find_column(names, column.name, "text-column: "));
    if (std::find(inputs.begin(), inputs.end(), named) != inputs.end()) return column;
    return invalid_input("text-column: '" + column.name + "' is the target, or ignored");
  }
  const auto usual = inputs.size() == 1 ? inputs.begin() : place(kUsualName);
  if (usual == inputs.end()) {
    return invalid_input(
        "text-column: name the column of texts that the network reads; there are " +
        std::to_string(inputs.size()) + ", and none is called text");
  }
  column.name = names[*usual];
  return column;
}

// The target's column: numbers, or classes.
Result<TableColumn> target_column(const ColumnValues& values, const std::string& name,
                                  TableTask task, std::vector<std::string>& notes) {
  const bool few = !values.too_many && values.different() <= kMostWholeClasses &&
                   2 * static_cast<int64_t>(values.different()) <= values.count;
  const bool by_kind = values.numbers && !(values.whole && few);
  const bool is_number =
      task == TableTask::kRegression || (task == TableTask::kByTarget && by_kind);
  const std::string subject = "the target '" + name + "' ";
  if (values.count == 0) return invalid_input(subject + "has no values in the training rows");
  if (is_number && !values.numbers) {
    return invalid_input(subject + "is not of numbers (" + values.first_text +
                         "): --task classification predicts texts");
  }
  if (!is_number && values.too_many) {
    return invalid_input(subject + "has more than " + std::to_string(kMaxClasses) +
                         " different values, or longer ones than " +
                         std::to_string(kLongestCategory) + " bytes: it is no class");
  }
  if (!values.too_many && values.different() < 2) {
    return invalid_input(subject + "is '" + values.sorted()[0] +
                         "' in all training rows: there is nothing to learn");
  }
  if (task == TableTask::kByTarget && values.numbers) {
    notes.push_back(subject + "is taken for " +
                    (is_number ? "numbers; --task classification takes it for classes"
                               : std::to_string(values.different()) +
                                     " classes; --task regression takes it for numbers"));
  }
  return values.column(name, is_number);
}

// Whether texts are categories, and not names of single rows.
bool are_categories(const ColumnValues& values) {
  return !values.too_many && 2 * static_cast<int64_t>(values.different()) <= values.count;
}

void add_input(const ColumnValues& values, const std::string& name, FoundSchema& found) {
  const auto leave_out = [&](const std::string& why) {
    found.notes.push_back("column '" + name + "' is left out: " + why);
  };
  if (values.count == 0) return leave_out("it has no values");
  if (values.numbers || are_categories(values)) {
    found.schema.columns.push_back(values.column(name, values.numbers));
    return;
  }
  leave_out("it has too many different texts for categories (the first value that is no number: " +
            values.first_text + ")");
}

void note_missing(FoundSchema& found) {
  for (const TableColumn& column : found.schema.columns) {
    if (column.missing == 0) continue;
    found.notes.push_back(
        "column '" + column.name + "' lacks " + std::to_string(column.missing) + " values: " +
        (column.is_number() ? "they are taken for the mean" : "they are of no category"));
  }
}

}  // namespace

bool is_of_part(int64_t row, RowPart part) {
  if (part == RowPart::kAll) return true;
  const auto number = static_cast<uint64_t>(row);
  const uint64_t bits = random_bits(0, RandomStream::kShuffle, UINT32_MAX, number / kPartRows);
  const bool is_test = number % kPartRows == uniform_below(bits, kPartRows);
  return is_test == (part == RowPart::kTest);
}

Result<FoundSchema> find_schema(TableRows& rows, RowPart part, const TableChoices& choices) {
  FoundSchema found;
  MANTISSA_ASSIGN(ChosenColumns chosen, choose_columns(rows, choices, found.notes));
  if (choices.text.tokenizer) {
    MANTISSA_ASSIGN(found.schema.text, text_column(rows.names(), chosen.inputs, choices.text));
    chosen.inputs.clear();
  }
  const std::vector<std::string>& names = rows.names();
  std::vector<ColumnValues> inputs(chosen.inputs.size(), ColumnValues(kMostCategories));
  ColumnValues target(kMaxClasses);
  bool counts = !chosen.weights;  // whether any row does
  int64_t number = 0;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows.next());
    if (row.empty()) break;
    if (!is_of_part(number++, part)) continue;
    if (row[chosen.target].kind == FieldKind::kMissing) {
      return invalid_input(rows.place() + ": has no value of the target '" + names[chosen.target] +
                           "'");
    }
    if (chosen.weights) {
      MANTISSA_ASSIGN(const int16_t weight,
                      row_weight(row[*chosen.weights], choices.weights, rows));
      counts |= weight > 0;
    }
    MANTISSA_RETURN_IF_ERROR(target.add(row[chosen.target], names[chosen.target], rows));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t column = chosen.inputs[i];
      MANTISSA_RETURN_IF_ERROR(inputs[i].add(row[column], names[column], rows));
    }
  }
  found.rows = number;
  if (number == 0) return invalid_input(rows.place() + ": there are no rows behind the names");
  if (!counts) {
    return invalid_input("row-weights: the column '" + choices.weights +
                         "' is 0 in all training rows, or too small; steps are 1/1024");
  }
  found.schema.weights = choices.weights;
  for (size_t i = 0; i < inputs.size(); ++i) add_input(inputs[i], names[chosen.inputs[i]], found);
  MANTISSA_ASSIGN(found.schema.target,
                  target_column(target, names[chosen.target], choices.task, found.notes));
  note_missing(found);
  if (found.schema.text && found.schema.is_regression()) {
    return invalid_input("the target '" + found.schema.target.name +
                         "' is of numbers, and a network of texts knows classes; --task " +
                         "classification takes it for these");
  }
  if (found.schema.columns.empty() && !found.schema.text) {
    return invalid_input("no column is left but the target '" + found.schema.target.name + "'");
  }
  if (found.schema.features() <= kMostFeatures) return found;
  return invalid_input("the columns make " + std::to_string(found.schema.features()) +
                       " numbers of each row; at most " + std::to_string(kMostFeatures) +
                       " are possible");
}

}  // namespace mantissa
