#include "data/readers/table_reader.h"

#include <new>
#include <optional>
#include <utility>

#include "base/sizes.h"
#include "data/tables/row_weights.h"
#include "data/tables/table_encoder.h"
#include "data/tokenizers/wordpiece.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

int64_t count_part(int64_t rows, RowPart part) {
  if (part == RowPart::kAll) return rows;
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) count += is_of_part(row, part);
  return count;
}

// The rows of a file, which has the schema's columns; 0 if it lacks the target.
Result<int64_t> count_rows(OpenRows open, const FoundSplit& split, const FoundData& found) {
  MANTISSA_ASSIGN(const auto rows, open(split, found.table->file_format()));
  MANTISSA_ASSIGN(const TableEncoder encoder, TableEncoder::create(*found.table, *rows));
  if (!encoder.has_target()) return int64_t{0};
  for (int64_t count = 0;; ++count) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (row.empty()) return count;
  }
}

// The columns, from the training rows that the part says. Returns the number of all rows.
Result<int64_t> take_schema(OpenRows open, RowPart part, const DataOptions& options,
                            FoundData& found) {
  found.train.part = part;
  if (options.schema) {
    found.table = options.schema;
    return count_rows(open, found.train, found);
  }
  MANTISSA_ASSIGN(const auto rows, open(found.train, options.table.format));
  MANTISSA_ASSIGN(FoundSchema schema, find_schema(*rows, part, options.table));
  if (options.learned) {
    MANTISSA_RETURN_IF_ERROR(
        take_learned_columns(*options.learned, schema.inputs, schema.schema, schema.notes));
  }
  found.table = std::move(schema.schema);
  for (std::string& note : schema.notes) found.notes.push_back(std::move(note));
  return schema.rows;
}

// One row in five is for testing.
Status keep_test_rows(OpenRows open, const DataOptions& options, FoundData& found) {
  MANTISSA_ASSIGN(const int64_t rows, take_schema(open, RowPart::kTrain, options, found));
  found.test = found.train;
  found.test.part = RowPart::kTest;
  found.train.count = count_part(rows, RowPart::kTrain);
  found.test.count = count_part(rows, RowPart::kTest);
  found.notes.push_back("there are no test rows: one row in five is kept for testing");
  return {};
}

// The rows of files for all splits.
Status count_splits(OpenRows open, const DataOptions& options, FoundData& found) {
  MANTISSA_ASSIGN(found.train.count, take_schema(open, RowPart::kAll, options, found));
  for (FoundSplit* split : {&found.validation, &found.test}) {
    if (split->files.empty()) continue;
    MANTISSA_ASSIGN(split->count, count_rows(open, *split, found));
  }
  if (found.test.count == 0 && found.validation.count > 0) {
    found.test = std::exchange(found.validation, {});
    found.notes.push_back("there are no test rows: " + quoted(found.test.file(0)) +
                          " is taken for them, not for validation");
  }
  return {};
}

// The parts of a split's rows that the network does not get.
void add_notes(const FoundData& found, const FoundSplit& split, const TableEncoder& encoder,
               const ReadOptions& options) {
  if (options.notes == nullptr) return;
  for (const SplitRow& row : kSplitRows) {
    if (&(found.*row.found) != &split) continue;
    for (const std::string& note : encoder.notes()) {
      options.notes->push_back(std::string(row.name) + " rows: " + note);
    }
  }
}

}  // namespace

Status inspect_table(OpenRows open, const DataOptions& options, FoundData& found) {
  const bool has_other_files = !found.test.files.empty() || !found.validation.files.empty();
  if (has_other_files) {
    FoundData all = found;
    MANTISSA_RETURN_IF_ERROR(count_splits(open, options, all));
    if (all.test.count > 0) {
      found = std::move(all);
    } else {
      found.notes.push_back(
          quoted((found.test.files.empty() ? found.validation : found.test).file(0)) +
          " has no rows with the target: predict --input takes it");
    }
  }
  if (found.test.count == 0) MANTISSA_RETURN_IF_ERROR(keep_test_rows(open, options, found));
  found.target = target_of(*found.table);
  found.nouns = {"rows", "tables"};
  return {};
}

void append_target(const TableTarget& target, const TableSchema& schema, ExampleSet& set) {
  for (size_t i = 0; i < schema.outputs.size(); ++i) {
    append_target(target.outputs[i], schema.outputs[i], set);
  }
  if (!schema.outputs.empty()) return;
  const char* const usual = schema.is_regression() ? kTargetTensor : kLabelTensor;
  StoredTensor& tensor = *set.find(schema.output.empty() ? usual : schema.output);
  if (schema.is_regression()) {
    for (size_t i = 0; i < target.numbers.size(); ++i) {
      const TableColumn& column = i == 0 ? schema.target : schema.more_targets[i - 1];
      tensor.as<int16_t>().push_back(standardised(target.numbers[i], column, kTargetExponent));
    }
    return;
  }
  auto& labels = tensor.as<Label>();
  if (!schema.has_labels()) labels.push_back(static_cast<Label>(target.label));
  labels.insert(labels.end(), target.labels.begin(), target.labels.end());
}

Result<bool> append_row(std::span<const TableField> row, const TableSchema& schema,
                        TableEncoder& encoder, ExampleSet& set) {
  MANTISSA_ASSIGN(const TableTarget target, encoder.target(row));
  MANTISSA_RETURN_IF_ERROR(encoder.append_inputs(row, set.tensors[0].as<int16_t>()));
  ++set.count;
  if (!target.is_known) return false;
  append_target(target, schema, set);
  return true;
}

Result<ExampleSet> read_table(OpenRows open, const FoundData& found, const FoundSplit& split,
                              const ReadOptions& options) {
  const TableSchema& schema = *found.table;
  ExampleSet set = row_set(schema, &split == &found.train);
  StoredTensor* const weights = set.find(kWeightTensor);
  try {
    set.tensors[0].as<int16_t>().reserve(static_cast<size_t>(split.count * schema.features()));
    MANTISSA_ASSIGN(const auto rows, open(split, schema.file_format()));
    MANTISSA_ASSIGN(TableEncoder encoder, TableEncoder::create(schema, *rows));
    size_t weight_column = 0;
    if (weights != nullptr) {
      MANTISSA_ASSIGN(weight_column, find_column(rows->names(), schema.weights,
                                                 rows->place() + ": row-weights: "));
    }
    for (int64_t number = 0;; ++number) {
      MANTISSA_ASSIGN(const auto row, rows->next());
      if (row.empty()) break;
      if (!is_of_part(number, split.part)) continue;
      MANTISSA_ASSIGN(const bool has_target, append_row(row, schema, encoder, set));
      if (!has_target) {
        return invalid_input(rows->place() + ": has no value of the target '" +
                             schema.target_names() + "'");
      }
      if (weights == nullptr) continue;
      MANTISSA_ASSIGN(const int16_t weight, row_weight(row[weight_column], schema.weights, *rows));
      weights->as<int16_t>().push_back(weight);
    }
    add_notes(found, split, encoder, options);
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(split.count) + " rows of " + quoted(split.file(0)),
                         split.count * set.tensors[0].example_bytes());
  }
  if (set.count == split.count) return set;
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

}  // namespace mantissa
