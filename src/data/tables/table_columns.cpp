#include "data/tables/table_columns.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "data/tables/column_values.h"
#include "data/tables/output_columns.h"
#include "data/tables/row_weights.h"

namespace mantissa {
namespace {

constexpr uint64_t kPartRows = 5;         // one row in this many is for testing
constexpr size_t kMostCategories = 256;   // of an input; more are no categories
constexpr int64_t kMostFeatures = 65536;  // of a table
constexpr size_t kMostWholeClasses = 64;  // whole numbers that are taken for classes
constexpr size_t kMostCodes = 20;         // whole numbers that are taken for categories, with texts
constexpr int64_t kLeastCounted = 20;     // rows, to take a column for their numbers
constexpr std::array<const char*, 4> kTargetNames = {"label", "target", "class", "y"};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return text;
}

// The target if nobody names one: a column that is called so, or the last one without another use.
size_t usual_target(const std::vector<std::string>& names, const std::set<size_t>& others) {
  for (const char* name : kTargetNames) {
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const std::string& one) { return lower(one) == name; });
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
  }
  for (size_t i = names.size(); i-- > 0;) {
    if (others.count(i) == 0) return i;
  }
  return names.size() - 1;
}

struct ChosenColumns {
  std::vector<size_t> inputs;
  std::vector<size_t> targets;
  std::vector<size_t> widths = {};  // of several outputs: how many of the targets each has
  std::optional<size_t> weights;
};

// The columns that are no inputs: ignored ones, and the column of weights.
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

// The columns that are predicted: those that the user names, with commas between them; else those
// that the rows name, or the usual one. A column may have commas in its name.
Result<std::vector<size_t>> chosen_targets(const TableRows& rows, const TableChoices& choices,
                                           const std::set<size_t>& ignored,
                                           std::vector<size_t>& widths) {
  const std::string& choice = choices.target;
  const std::vector<std::string>& names = rows.names();
  std::vector<std::string> chosen = rows.targets();
  if (!choices.outputs.empty()) {
    MANTISSA_ASSIGN(const auto columns, columns_of_outputs(choices));
    chosen.clear();
    for (const std::vector<std::string>& own : columns) {
      chosen.insert(chosen.end(), own.begin(), own.end());
      widths.push_back(own.size());
    }
  } else if (!choice.empty()) {
    const bool is_one = std::find(names.begin(), names.end(), choice) != names.end();
    chosen = is_one ? std::vector<std::string>{choice} : parse_missing(choice);
  }
  if (chosen.empty()) return std::vector<size_t>{usual_target(names, ignored)};
  std::vector<size_t> targets;
  for (const std::string& name : chosen) {
    MANTISSA_ASSIGN(const size_t target, find_column(names, name, "target: "));
    if (std::find(targets.begin(), targets.end(), target) != targets.end()) {
      return invalid_input("target: the column '" + name + "' is named twice");
    }
    targets.push_back(target);
  }
  return targets;
}

Result<ChosenColumns> choose_columns(const TableRows& rows, const TableChoices& choices,
                                     std::vector<std::string>& notes) {
  const std::vector<std::string>& names = rows.names();
  ChosenColumns chosen;
  MANTISSA_ASSIGN(const std::set<size_t> ignored, other_columns(rows, choices, chosen, notes));
  MANTISSA_ASSIGN(chosen.targets, chosen_targets(rows, choices, ignored, chosen.widths));
  const std::set<size_t> targets(chosen.targets.begin(), chosen.targets.end());
  for (const size_t target : chosen.targets) {
    if (chosen.weights == target) {
      return invalid_input("row-weights: the column '" + choices.weights +
                           "' is the target; --target names another");
    }
    if (ignored.count(target) > 0) {
      return invalid_input("target: the column '" + names[target] +
                           "' is ignored; --target names another");
    }
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (targets.count(i) == 0 && ignored.count(i) == 0) chosen.inputs.push_back(i);
  }
  if (chosen.inputs.empty() && names.size() > 1) {
    return invalid_input("no column is left but the target '" + names[chosen.targets[0]] + "'");
  }
  if (chosen.inputs.empty()) {
    return invalid_input(rows.place() + ": there is one column alone, '" + names[chosen.targets[0]] +
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

// An error for a target whose values are numbers except for markers of missing values, or a few
// texts.
Status check_number_target(const ColumnValues& values, const std::string& name, bool few) {
  const std::string remedy = "; correct the row, or --task classification takes it for a class";
  const NumberStats& numbers = values.numbers();
  const bool only_lacks = numbers.count > 0 && numbers.count + values.marked == values.count;
  if (only_lacks && values.marked > 0) {
    return invalid_input(values.marker_place + ": has no value of the target '" + name + "' but '" +
                         values.first_marker + "'" + remedy);
  }
  if (values.is_of_numbers() || !values.is_nearly_of_numbers() || few) return {};
  return invalid_input(numbers.misfit_place + ": the target '" + name +
                       "' is of numbers, and has " + numbers.misfit + remedy);
}

// Notes about classes of the target that are both texts and numbers.
void note_mixed_classes(const ColumnValues& values, const std::string& name,
                        std::vector<std::string>& notes) {
  const NumberStats& numbers = values.numbers();
  if (numbers.count == 0 || values.is_of_numbers()) return;
  notes.push_back("the target '" + name + "' has numbers and texts (" + numbers.misfit + ", " +
                  numbers.misfit_place + "): all are taken for classes");
}

// The target's column: numbers, or classes.
Result<TableColumn> target_column(const ColumnValues& values, const std::string& name,
                                  TableTask task, std::vector<std::string>& notes) {
  const bool few = !values.too_many() && values.different() <= kMostWholeClasses &&
                   2 * static_cast<int64_t>(values.different()) <= values.count;
  const std::string subject = "the target '" + name + "' ";
  if (values.count == 0) return invalid_input(subject + "has no values in the training rows");
  if (task == TableTask::kByTarget) {
    MANTISSA_RETURN_IF_ERROR(check_number_target(values, name, few));
  }
  const NumberStats& numbers = values.numbers();
  const bool by_kind = values.is_of_numbers() && !(numbers.whole && few);
  const bool is_number =
      task == TableTask::kRegression || (task == TableTask::kByTarget && by_kind);
  if (is_number && !values.is_of_numbers()) {
    return invalid_input(subject + "is not of numbers (" + numbers.misfit + ", " +
                         numbers.misfit_place + "): --task classification predicts texts");
  }
  if (!is_number && values.too_many()) {
    return invalid_input(subject + "has more than " + std::to_string(kMaxClasses) +
                         " different values, or longer ones than " +
                         std::to_string(kLongestCategory) + " bytes: it is no class");
  }
  if (!values.too_many() && values.different() < 2) {
    return invalid_input(subject + "is '" + values.sorted()[0] +
                         "' in all training rows: there is nothing to learn");
  }
  if (is_number && numbers.deviation() == 0) {
    return invalid_input(subject + "is the same in all training rows but for rounding: there is " +
                         "nothing to learn");
  }
  if (task == TableTask::kByTarget && values.is_of_numbers()) {
    notes.push_back(subject + "is taken for " +
                    (is_number ? "numbers; --task classification takes it for classes"
                               : std::to_string(values.different()) +
                                     " classes; --task regression takes it for numbers"));
  }
  if (!is_number) note_mixed_classes(values, name, notes);
  return values.column(name, is_number);
}

// Several targets: labels, if each has two values, or numbers.
Status take_targets(std::span<const ColumnValues> values, std::span<const std::string> names,
                    TableTask task, TableSchema& schema, std::vector<std::string>& notes) {
  const auto all = [&](const auto& fits) { return std::all_of(values.begin(), values.end(), fits); };
  const bool are_labels = task != TableTask::kRegression && all([](const ColumnValues& one) {
    return !one.too_many() && one.different() <= 2;
  });
  const bool are_numbers = !are_labels && task != TableTask::kClassification &&
                           all([](const ColumnValues& one) { return one.is_of_numbers(); });
  if (!are_labels && !are_numbers) {
    return invalid_input(
        "target: several columns are labels, of two values each, or numbers; these are neither");
  }
  const TableTask each = are_labels ? TableTask::kClassification : TableTask::kRegression;
  for (size_t i = 0; i < values.size(); ++i) {
    MANTISSA_ASSIGN(TableColumn column, target_column(values[i], names[i], each, notes));
    if (i == 0) {
      schema.target = std::move(column);
    } else {
      schema.more_targets.push_back(std::move(column));
    }
  }
  if (task == TableTask::kByTarget) {
    notes.push_back(std::to_string(values.size()) + " targets are taken for " +
                          (are_labels ? "labels; --task regression takes them for numbers"
                                      : "numbers"));
  }
  return {};
}

// A target for each output: numbers or classes, as its loss wants.
Status take_outputs(std::span<const ColumnValues> values, std::span<const std::string> names,
                    std::span<const size_t> widths, const TableChoices& choices,
                    FoundSchema& found) {
  for (size_t i = 0, first = 0; i < widths.size(); first += widths[i++]) {
    const WantedTarget& wanted = choices.outputs[i];
    TableSchema& output = found.schema.outputs.emplace_back();
    output.output = wanted.name;
    const TableTask task = wanted.is_number ? TableTask::kRegression : TableTask::kClassification;
    if (widths[i] > 1) {
      MANTISSA_RETURN_IF_ERROR(take_targets(values.subspan(first, widths[i]),
                                            names.subspan(first, widths[i]), task, output,
                                            found.notes));
      continue;
    }
    MANTISSA_ASSIGN(output.target, target_column(values[first], names[first], task, found.notes));
  }
  return {};
}

// Remarks about a column of numbers.
void note_numbers(const ColumnValues& values, const std::string& name,
                  std::vector<std::string>& notes) {
  const NumberStats& numbers = values.numbers();
  if (!values.doubt().empty()) notes.push_back("guessed: column '" + name + "': " + values.doubt());
  if (numbers.grows && numbers.count >= kLeastCounted) {
    notes.push_back("column '" + name +
                    "' has whole numbers that grow from row to row, as numbers " +
                    "of rows do: --ignore '" + name + "' leaves it out");
  }
  if (numbers.deviation() == 0) {
    notes.push_back("column '" + name + "' is the same in all training rows" +
                    (values.different() > 1 || values.too_many() ? " but for rounding" : "") +
                    ": it tells nothing");
  }
}

// "'12 %'", "'$5'", "'2024-01-31'", within quotes: a reader may take these for numbers.
bool begins_like_number(std::string_view quoted) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t first = quoted.find_first_of(kDigits);
  constexpr size_t kMostSigns = 4;  // the quote, and a sign of up to three bytes
  const std::string_view before = quoted.substr(0, first);
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  return first <= kMostSigns && std::ranges::none_of(before, is_letter);
}

// A column of numbers, or of categories. An error for a text in a column of numbers.
Status add_input(const ColumnValues& values, const std::string& name, FoundSchema& found) {
  const NumberStats& numbers = values.numbers();
  const std::string misfit = numbers.misfit + ", " + numbers.misfit_place;
  const auto leave_out = [&](const std::string& why) {
    found.notes.push_back("column '" + name + "' is left out: " + why);
    return Status();
  };
  if (values.count == 0) return leave_out("it has no values");
  if (values.is_of_numbers()) {
    note_numbers(values, name, found.notes);
    found.schema.columns.push_back(values.column(name, true));
    return {};
  }
  const bool are_codes =
      values.are_categories() && values.different() <= kMostCodes && numbers.whole;
  if (values.is_nearly_of_numbers() && !are_codes) {
    return odd_value(numbers.misfit_place, name, numbers.misfit);
  }
  if (!values.are_categories()) {
    return leave_out(
        "it has too many different texts for categories (the first value that is no "
        "number: " +
        misfit + ")");
  }
  if (numbers.count > 0) {
    found.notes.push_back(
        "column '" + name +
        "' is taken for categories: " + std::to_string(values.count - numbers.count) + " of its " +
        std::to_string(values.count) + " values are no numbers (the first: " + misfit + ")");
  } else if (begins_like_number(numbers.misfit)) {
    found.notes.push_back("column '" + name + "' is taken for " +
                          std::to_string(values.different()) + " categories, not for numbers (" +
                          misfit + ")");
  }
  found.schema.columns.push_back(values.column(name, false));
  return {};
}

// How many values a column lacks, and which value replaces them.
void note_missing(const ColumnValues& values, const TableColumn& column,
                  std::vector<std::string>& notes) {
  if (values.missing == 0) return;
  std::string markers;
  for (const auto& [text, count] : values.markers) {
    if (text.empty()) continue;
    markers +=
        (markers.empty() ? ", of which " : ", ") + std::to_string(count) + " are '" + text + "'";
  }
  notes.push_back("column '" + column.name + "' lacks " + std::to_string(values.missing) +
                  " values" + markers + ": " +
                  (column.is_number() ? "they are taken for the mean" : "they are of no category"));
}

// The decimal sign of the columns where it is certain; 0 if they differ.
char usual_decimal(std::span<const ColumnValues> inputs, std::span<const ColumnValues> targets) {
  std::set<char> signs;
  for (const ColumnValues& values : inputs) {
    if (const auto sign = values.decimal()) signs.insert(*sign);
  }
  for (const ColumnValues& values : targets) {
    if (const auto sign = values.decimal()) signs.insert(*sign);
  }
  return signs.size() == 1 ? *signs.begin() : '\0';
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
  FoundSchema found{.schema = {}, .notes = rows.notes(), .inputs = {}};
  MANTISSA_ASSIGN(ChosenColumns chosen, choose_columns(rows, choices, found.notes));
  if (choices.text.tokenizer) {
    MANTISSA_ASSIGN(found.schema.text, text_column(rows.names(), chosen.inputs, choices.text));
    chosen.inputs.clear();
  }
  const std::vector<std::string>& names = rows.names();
  for (const size_t column : chosen.inputs) found.inputs.push_back(names[column]);
  std::vector<ColumnValues> inputs(chosen.inputs.size(), ColumnValues(kMostCategories, false));
  std::vector<ColumnValues> targets(chosen.targets.size(), ColumnValues(kMaxClasses, true));
  bool counts = !chosen.weights;  // whether any row does
  int64_t number = 0;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows.next());
    if (row.empty()) break;
    if (!is_of_part(number++, part)) continue;
    for (size_t i = 0; i < targets.size(); ++i) {
      const size_t column = chosen.targets[i];
      if (row[column].kind == FieldKind::kMissing) {
        return invalid_input(rows.place() + ": has no value of the target '" + names[column] + "'");
      }
      MANTISSA_RETURN_IF_ERROR(targets[i].add(row[column], names[column], rows));
    }
    if (chosen.weights) {
      MANTISSA_ASSIGN(const int16_t weight,
                      row_weight(row[*chosen.weights], choices.weights, rows));
      counts |= weight > 0;
    }
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
  found.schema.format = choices.format;
  const bool is_told = choices.decimal != '\0';
  const char decimal = is_told ? choices.decimal : usual_decimal(inputs, targets);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].choose(decimal, is_told, rows.separator());
    const size_t before = found.schema.columns.size();
    MANTISSA_RETURN_IF_ERROR(add_input(inputs[i], names[chosen.inputs[i]], found));
    if (found.schema.columns.size() > before) {
      note_missing(inputs[i], found.schema.columns.back(), found.notes);
    }
  }
  std::vector<std::string> target_names;
  for (size_t i = 0; i < targets.size(); ++i) {
    targets[i].choose(decimal, is_told, rows.separator());
    target_names.push_back(names[chosen.targets[i]]);
  }
  if (!choices.outputs.empty()) {
    MANTISSA_RETURN_IF_ERROR(take_outputs(targets, target_names, chosen.widths, choices, found));
  } else if (targets.size() == 1) {
    MANTISSA_ASSIGN(found.schema.target,
                    target_column(targets[0], target_names[0], choices.task, found.notes));
  } else {
    MANTISSA_RETURN_IF_ERROR(take_targets(targets, target_names, choices.task, found.schema,
                                          found.notes));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].doubt().empty()) continue;
    found.notes.push_back("guessed: column '" + target_names[i] + "': " + targets[i].doubt());
  }
  if (found.schema.text && found.schema.is_regression()) {
    return invalid_input("the target '" + found.schema.target.name +
                         "' is of numbers, and a network of texts knows classes; --task " +
                         "classification takes it for these");
  }
  if (found.schema.columns.empty() && !found.schema.text) {
    return invalid_input("no column is left but the target '" + found.schema.target_names() + "'");
  }
  if (found.schema.features() <= kMostFeatures) return found;
  return invalid_input("the columns make " + std::to_string(found.schema.features()) +
                       " numbers of each row; at most " + std::to_string(kMostFeatures) +
                       " are possible");
}

}  // namespace mantissa
