#include "data/arrays/array_targets.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "data/arrays/array_files.h"
#include "data/batches/no_label.h"
#include "data/readers/table_reader.h"
#include "data/tables/table_encoder.h"
#include "data/tables/table_rows.h"

namespace mantissa {
namespace {

// Rows that have the targets alone; a table wants an input, too.
Result<std::unique_ptr<TableRows>> target_rows(const FoundSplit& split, const NpyArray& y,
                                               const std::string& name) {
  NpyArray twice = y;
  twice.name = "x";
  return array_rows(quoted(split.file(0)), std::move(twice), y, {}, name);
}

}  // namespace

Result<Label> place_label(const FoundSplit& split, const NpyArray& y, double number) {
  if (number == -1 || is_ignored(split, number)) return kNoLabel;
  if (number >= 0 && number < kNoLabel && number == std::floor(number)) {
    return static_cast<Label>(number);
  }
  return invalid_input(place_of(split, y) + " has a label that is no whole number from -1 to " +
                       std::to_string(kNoLabel - 1) +
                       "; -1 counts nothing, and so does the label that --ignore-label names");
}

Result<std::vector<TableColumn>> example_targets(const FoundSplit& split, const NpyArray& y,
                                                 TableTask task, FoundData& found,
                                                 const std::string& name) {
  MANTISSA_ASSIGN(const auto rows, target_rows(split, y, name));
  TableChoices choices;
  choices.task = task;
  MANTISSA_ASSIGN(FoundSchema schema, find_schema(*rows, split.part, choices));
  for (std::string& note : schema.notes) {
    if (note.find("the target") != std::string::npos) found.notes.push_back(std::move(note));
  }
  return schema.schema.targets();
}

Result<Label> largest_place_label(const FoundSplit& split, const NpyArray& y, FoundData& found) {
  const NumberAt number = number_reader(y.type);
  const int64_t count = std::ssize(y.data) / npy_element_bytes(y.type);
  Label largest = 0, second = 0;
  int64_t missing = 0;
  for (int64_t i = 0; i < count; ++i) {
    MANTISSA_ASSIGN(const Label label, place_label(split, y, number(y, i)));
    missing += number(y, i) == -1;
    if (label == kNoLabel || label == largest) continue;
    second = std::max(second, std::min(label, largest));
    largest = std::max(largest, label);
  }
  const std::string subject = "'" + y.name + "' " + shape_text(y) + ": ";
  if (missing > 0) {
    found.notes.push_back(subject + std::to_string(missing) + " labels are -1 and count nothing");
  }
  if (largest > second + 1) {
    found.notes.push_back(subject + "no label lies between " + std::to_string(second) + " and " +
                          std::to_string(largest) + "; if that says that there is no class, " +
                          "--ignore-label " + std::to_string(largest) + " leaves it out");
  }
  return largest;
}

Result<TableColumn> place_target(const FoundSplit& split, const NpyArray& y, FoundData& found) {
  MANTISSA_ASSIGN(const Label largest, largest_place_label(split, y, found));
  if (largest == 0) {
    return invalid_input(place_of(split, y) + " is 0 everywhere: there is nothing to learn");
  }
  return TableColumn{.name = "y", .categories = numbered_classes(int{largest} + 1)};
}

namespace {

// That an array has labels in an order, at most as many as the shape says for each example.
Status check_labels_in_order(const FoundSplit& split, const NpyArray& y, const Shape& most) {
  if (y.shape.size() == 2 && y.shape[1] >= 1 && y.shape[1] <= most[0]) return {};
  return invalid_input(place_of(split, y) +
                       " does not fit: the network wants labels in an order, " +
                       "whole numbers [N, " + std::to_string(most[0]) + "] or narrower, with -1 " +
                       "behind the last one of each example");
}

bool are_labels_of_places(const NpyArray& y, const Shape& places) {
  const std::vector<int64_t> dims = dims_of(places);
  return places.rank > 0 &&
         std::equal(y.shape.begin() + 1, y.shape.end(), dims.begin(), dims.end());
}

void put_columns(std::vector<TableColumn> columns, TableSchema& schema) {
  schema.target = std::move(columns[0]);
  schema.more_targets.assign(std::make_move_iterator(columns.begin() + 1),
                             std::make_move_iterator(columns.end()));
}

Status check_target(const FoundSplit& split, const NpyArray& y, const TableSchema& schema) {
  if (schema.has_labels_in_order) return check_labels_in_order(split, y, schema.label_shape);
  const auto targets = std::ssize(schema.targets());
  const bool fits = schema.label_shape.rank > 0
                        ? are_labels_of_places(y, schema.label_shape)
                        : (y.shape.size() == 1 && targets == 1) ||
                              (y.shape.size() == 2 && y.shape[1] == targets);
  if (fits) return {};
  return invalid_input(place_of(split, y) + " has other targets than the training array");
}

}  // namespace

Status take_targets(const FoundSplit& train, std::span<const NpyArray> arrays,
                    const TableChoices& choices, FoundData& found, TableSchema& schema) {
  for (size_t i = 0; i < choices.outputs.size(); ++i) {
    const WantedTarget& wanted = choices.outputs[i];
    const TableTask task = wanted.is_number ? TableTask::kRegression : TableTask::kClassification;
    MANTISSA_ASSIGN(std::vector<TableColumn> columns,
                    example_targets(train, arrays[i], task, found, wanted.name));
    put_columns(std::move(columns), schema.outputs.emplace_back());
    schema.outputs.back().output = wanted.name;
  }
  if (!schema.outputs.empty()) return {};
  if (choices.classes_in_order > 0) {
    MANTISSA_RETURN_IF_ERROR(check_labels_in_order(train, arrays[0], choices.label_shape));
    schema.label_shape = choices.label_shape;
    schema.has_labels_in_order = true;
    const auto classes = static_cast<int>(choices.classes_in_order);
    schema.target = TableColumn{.name = "y", .categories = numbered_classes(classes)};
    return {};
  }
  if (are_labels_of_places(arrays[0], choices.label_shape)) {
    schema.label_shape = choices.label_shape;
    MANTISSA_ASSIGN(schema.target, place_target(train, arrays[0], found));
    return {};
  }
  MANTISSA_ASSIGN(std::vector<TableColumn> columns,
                  example_targets(train, arrays[0], choices.task, found));
  put_columns(std::move(columns), schema);
  return {};
}

Status check_targets(const FoundSplit& split, std::span<const NpyArray> arrays,
                     const TableSchema& schema) {
  if (schema.outputs.empty()) return check_target(split, arrays[0], schema);
  for (size_t i = 0; i < schema.outputs.size(); ++i) {
    MANTISSA_RETURN_IF_ERROR(check_target(split, arrays[i], schema.outputs[i]));
  }
  return {};
}

namespace {

// Appends the labels of the split's examples, filled up with kNoLabel.
Status append_labels_in_order(const FoundSplit& split, const NpyArray& y, const TableSchema& schema,
                              ExampleSet& set) {
  auto& labels = set.find(kLabelTensor)->as<Label>();
  const NumberAt number = number_reader(y.type);
  const auto classes = std::ssize(schema.target.categories);
  const int64_t width = y.shape[1], padding = schema.label_shape[0] - width;
  for (int64_t n = 0; n < y.shape[0]; ++n) {
    if (!is_of_part(n, split.part)) continue;
    for (int64_t i = n * width; i < (n + 1) * width; ++i) {
      const double label = number(y, i);
      if (label >= -1 && label < static_cast<double>(classes) && label == std::floor(label)) {
        labels.push_back(label < 0 ? kNoLabel : static_cast<Label>(label));
        continue;
      }
      return invalid_input(place_of(split, y) + " has in row " + std::to_string(n) +
                           " a label that is no whole number from 0 to " +
                           std::to_string(classes - 1) + ", or -1 behind the last one");
    }
    labels.insert(labels.end(), static_cast<size_t>(padding), kNoLabel);
  }
  return {};
}

}  // namespace

Status append_targets(const FoundSplit& split, const NpyArray& y, const TableSchema& schema,
                      ExampleSet& set) {
  if (schema.has_labels_in_order) return append_labels_in_order(split, y, schema, set);
  if (schema.label_shape.rank > 0) {
    auto& labels = set.find(kLabelTensor)->as<Label>();
    const NumberAt number = number_reader(y.type);
    const int64_t places = schema.label_shape.count();
    for (int64_t i = 0; i < y.shape[0] * places; ++i) {
      if (!is_of_part(i / places, split.part)) continue;
      MANTISSA_ASSIGN(const Label label, place_label(split, y, number(y, i)));
      if (label != kNoLabel && label >= std::ssize(schema.target.categories)) {
        return invalid_input(place_of(split, y) + " has the label " + std::to_string(label) +
                             ", which no training example has; --ignore-label " +
                             std::to_string(label) + " leaves it out");
      }
      labels.push_back(label);
    }
    return {};
  }
  MANTISSA_ASSIGN(const auto rows,
                  target_rows(split, y, schema.output.empty() ? "y" : schema.output));
  TableSchema targets_alone;
  targets_alone.output = schema.output;
  targets_alone.target = schema.target;
  targets_alone.more_targets = schema.more_targets;
  MANTISSA_ASSIGN(TableEncoder encoder, TableEncoder::create(targets_alone, *rows));
  for (int64_t n = 0; n < y.shape[0]; ++n) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (!is_of_part(n, split.part)) continue;
    MANTISSA_ASSIGN(const TableTarget target, encoder.target(row));
    if (!target.is_known) return invalid_input(rows->place() + ": has no target");
    append_target(target, schema, set);
  }
  return {};
}

}  // namespace mantissa
