#include "data/tables/learned_data.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/real_text.h"

namespace mantissa {
namespace {

using Names = std::vector<std::string>;

template <typename Columns>
Names column_names(const Columns& columns) {
  Names names;
  for (const auto& column : columns) names.push_back(column.name);
  return names;
}

bool has_name(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_all(const Names& names, const Names& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const std::string& name) { return has_name(names, name); });
}

bool are_same(const Names& a, const Names& b) {
  return a.size() == b.size() && has_all(a, b) && has_all(b, a);
}

std::string quoted_list(const Names& names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    list += (i == 0 ? "'" : i + 1 == names.size() ? " and '" : ", '") + names[i] + "'";
  }
  return list;
}

// Names as data without names have them: "0", "1", ...
bool are_numbers(const Names& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) return false;
  }
  return true;
}

const TableColumn* column_named(const std::vector<TableColumn>& columns, const std::string& name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const TableColumn& column) { return column.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

// The known column, whose numbers are written as in this file.
TableColumn known_column(const TableColumn& known, const std::vector<TableColumn>& here) {
  TableColumn column = known;
  const TableColumn* const own = column_named(here, known.name);
  if (own != nullptr && own->is_number() && known.is_number()) column.style = own->style;
  return column;
}

std::vector<TableColumn> known_columns(const std::vector<TableColumn>& known,
                                       const std::vector<TableColumn>& here) {
  std::vector<TableColumn> columns;
  for (const TableColumn& column : known) columns.push_back(known_column(column, here));
  return columns;
}

Error other_target(const LearnedData& learned, const std::string& what) {
  return invalid_input("from: " + learned.source + " " + what +
                       "; nothing is trained before its network is quantised, so the data must "
                       "have what it was trained for");
}

bool is_of_numbers_or_labels(const TableSchema& schema) {
  return schema.is_regression() || schema.has_labels();
}

std::string target_text(const TableSchema& schema) {
  return (schema.is_regression() ? "the numbers of " : schema.has_labels() ? "the labels "
                                                                           : "the classes of ") +
         schema.target_names();
}

// Numbers in the units of the source, and labels in its order.
void take_known_targets(const TableSchema& known, TableSchema& schema) {
  std::vector<TableColumn> columns = known_columns(known.targets(), schema.targets());
  schema.target = std::move(columns[0]);
  schema.more_targets.assign(columns.begin() + 1, columns.end());
}

Status take_target(const LearnedData& learned, const TableSchema& known, TableSchema& schema) {
  const Names there = column_names(known.targets()), here = column_names(schema.targets());
  const bool are_of_a_kind = known.is_regression() == schema.is_regression() &&
                             known.has_labels() == schema.has_labels();
  if (!are_of_a_kind || (is_of_numbers_or_labels(known) && !are_same(there, here))) {
    if (!learned.is_exact) return {};
    return other_target(learned, "predicts " + target_text(known) + ", and the data have " +
                                     target_text(schema));
  }
  if (is_of_numbers_or_labels(known)) {
    take_known_targets(known, schema);
    return {};
  }
  const Names &classes = known.target.categories, &own = schema.target.categories;
  if (has_all(classes, own)) {
    if (learned.is_exact || own.size() == classes.size()) schema.target.categories = classes;
    return {};
  }
  if (!learned.is_exact) return {};
  Names others;
  std::copy_if(own.begin(), own.end(), std::back_inserter(others),
               [&](const std::string& name) { return !has_name(classes, name); });
  return other_target(learned, "has no class " + quoted_list(others) + ", and the data have");
}

// The same of a schema, or of each of its outputs that the source has, too.
Status take_target(const LearnedData& learned, TableSchema& schema) {
  const TableSchema& known = *learned.table;
  if (known.outputs.empty() && schema.outputs.empty()) return take_target(learned, known, schema);
  for (TableSchema& output : schema.outputs) {
    const auto there = std::find_if(
        known.outputs.begin(), known.outputs.end(),
        [&](const TableSchema& each) { return each.output == output.output; });
    if (there != known.outputs.end()) {
      MANTISSA_RETURN_IF_ERROR(take_target(learned, *there, output));
    } else if (learned.is_exact) {
      return other_target(learned, "has no output '" + output.output + "', and the data have");
    }
  }
  if (!learned.is_exact || known.outputs.size() == schema.outputs.size()) return {};
  return other_target(learned, "predicts " + known.target_names() + ", and the data have " +
                                   schema.target_names());
}

// Whether a row that the network reads is meant to have the known columns.
bool wants_columns(const LearnedData& learned, const Names& names, const TableSchema& schema) {
  const TableSchema& known = *learned.table;
  if (learned.is_exact) return true;
  if (learned.features > 0) return learned.features == known.features();
  const Names wanted = column_names(known.columns);
  return known.features() == schema.features() || are_same(wanted, names) ||
         are_same(wanted, column_names(schema.columns));
}

bool are_rows(const TableSchema& schema) {
  return !schema.text && !schema.is_shaped() && !schema.has_named_inputs();
}

}  // namespace

Status take_learned_columns(const LearnedData& learned, const Names& names, TableSchema& schema,
                            Names& notes) {
  if (!learned.table) return {};
  const TableSchema& known = *learned.table;
  if (are_rows(known) && are_rows(schema) && wants_columns(learned, names, schema)) {
    const Names wanted = column_names(known.columns), own = column_names(schema.columns);
    Names missing, others;
    for (const std::string& name : wanted) {
      if (!has_name(names, name)) missing.push_back(name);
    }
    if (!missing.empty()) {
      return invalid_input("from: " + learned.source + " reads the columns " + quoted_list(wanted) +
                           ", and the data have no input " + quoted_list(missing) +
                           ": its weights belong to these columns; name them so, or train without "
                           "--from");
    }
    for (const std::string& name : own) {
      if (!has_name(wanted, name)) others.push_back(name);
    }
    if (!others.empty()) {
      notes.push_back("the columns " + quoted_list(others) + " are left out: " + learned.source +
                      " does not read them");
    }
    const std::string differing = differing_columns(known, schema);
    if (!differing.empty()) {
      notes.push_back("columns, means and deviations are those of " + learned.source + ": " +
                      differing);
    }
    schema.columns = known_columns(known.columns, schema.columns);
  }
  return take_target(learned, schema);
}

Status take_learned_channels(const LearnedData& learned, TableSchema& schema) {
  if (!learned.table) return {};
  const TableSchema& known = *learned.table;
  if (known.is_shaped() && schema.is_shaped() && known.columns.size() == schema.columns.size()) {
    schema.columns = known.columns;
  }
  for (ArrayInput& input : schema.inputs) {
    for (const ArrayInput& there : known.inputs) {
      if (there.name == input.name && there.columns.size() == input.columns.size()) {
        input.columns = there.columns;
      }
    }
  }
  return take_target(learned, schema);
}

Result<std::vector<Label>> take_learned_classes(const LearnedData& learned, bool are_named,
                                                const std::string& data, Names& names) {
  const Names& classes = learned.classes;
  if (classes.empty() || names == classes) return std::vector<Label>();
  if (!has_all(classes, names)) {
    const bool by_number = !are_named || are_numbers(classes);
    if (!learned.is_exact) return std::vector<Label>();
    if (by_number && names.size() <= classes.size()) {
      names = classes;
      return std::vector<Label>();
    }
    return other_target(learned, "tells " + quoted_list(classes) + " apart, and " + data + " has " +
                                     quoted_list(names));
  }
  if (!learned.is_exact && names.size() != classes.size()) return std::vector<Label>();
  std::vector<Label> numbers;
  for (const std::string& name : names) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    numbers.push_back(static_cast<Label>(found - classes.begin()));
  }
  names = classes;
  std::vector<Label> same(numbers.size());
  std::iota(same.begin(), same.end(), Label{0});
  return numbers == same ? std::vector<Label>() : numbers;
}

std::string differing_columns(const TableSchema& there, const TableSchema& here) {
  const auto differing = [](const std::vector<TableColumn>& a,
                            const std::vector<TableColumn>& b) -> std::string {
    const Names names = column_names(a), others = column_names(b);
    if (names != others) {
      return "the columns are " + quoted_list(names) + " there, and " + quoted_list(others) + " here";
    }
    for (size_t i = 0; i < a.size(); ++i) {
      const std::string subject = "the column '" + a[i].name + "' has ";
      if (a[i].categories != b[i].categories) return subject + "other texts there than here";
      if (a[i].mean != b[i].mean) {
        return subject + "the mean " + real_text(a[i].mean) + " there, and " +
               real_text(b[i].mean) + " here";
      }
      if (a[i].deviation != b[i].deviation) {
        return subject + "the deviation " + real_text(a[i].deviation) + " there, and " +
               real_text(b[i].deviation) + " here";
      }
    }
    return "";
  };
  std::string found = differing(there.columns, here.columns);
  for (const ArrayInput& a : there.inputs) {
    for (const ArrayInput& b : here.inputs) {
      if (found.empty() && a.name == b.name) found = differing(a.columns, b.columns);
    }
  }
  return found;
}

std::string differing_classes(const Names& there, const Names& here) {
  if (there == here || are_numbers(there) || are_numbers(here)) return "";
  return "the classes are " + quoted_list(there) + " there, and " + quoted_list(here) + " here";
}

}  // namespace mantissa
