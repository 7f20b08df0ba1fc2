#include "data/arrays/named_arrays.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/sizes.h"
#include "data/arrays/array_files.h"
#include "data/arrays/array_roles.h"
#include "data/arrays/array_targets.h"
#include "data/arrays/channel_numbers.h"
#include "data/arrays/input_values.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// The arrays of a split, and the lengths of its sequences.
struct SplitArrays {
  std::vector<NpyArray> inputs;
  std::vector<NpyArray> targets;              // of each output; none: they are unknown
  std::vector<std::vector<int32_t>> lengths;  // one for each input; empty: all positions count
};

// The files of a split: the archive, the names of its inputs' arrays, the names of its targets'.
FoundSplit split_of_names(const fs::path& archive, ArrayNames names) {
  FoundSplit split;
  split.folder = archive.parent_path();
  split.files = std::move(names);
  split.files.insert(split.files.begin(), archive.filename().string());
  return split;
}

Status check_all_counts(const FoundSplit& split, const SplitArrays& arrays) {
  const NpyArray& first = arrays.inputs[0];
  for (const std::vector<NpyArray>* const list : {&arrays.inputs, &arrays.targets}) {
    for (const NpyArray& array : *list) {
      MANTISSA_RETURN_IF_ERROR(check_counts(split, first, array));
    }
  }
  return {};
}

// The lengths of the sequence that an input is.
Result<std::vector<int32_t>> lengths_for(const FoundSplit& split, const ArrayInput& sequence,
                                         const std::vector<ArrayInput>& inputs,
                                         const std::vector<NpyArray>& arrays) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (sequence.lengths.empty() || inputs[i].name != sequence.lengths) continue;
    return lengths_in(split, arrays[i], inputs[i]);
  }
  return std::vector<int32_t>();
}

// Takes the array of this name out of the arrays of a split's file.
Result<NpyArray> take_array(const FoundSplit& split, const std::string& name,
                            std::vector<NpyArray>& all) {
  for (NpyArray& array : all) {
    if (array.name == name) return std::move(array);
  }
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

// The labels of a network with one output.
Result<NpyArray> labels_in(const FoundSplit& split) {
  std::vector<OtherArray> others;
  MANTISSA_ASSIGN(std::vector<NpyArray> all, read_npz(split.file(0), {}, &others));
  return take_array(split, split.files.back(), all);
}

// Reads the arrays of a split, and checks them. `inputs` learn whether channels come first. If both
// orders fit, `axis` says it, or without it what the inputs knew before.
Result<SplitArrays> read_split(const FoundSplit& split, std::optional<ChannelAxis> axis,
                               std::vector<ArrayInput>& inputs) {
  std::vector<OtherArray> others;
  MANTISSA_ASSIGN(std::vector<NpyArray> all, read_npz(split.file(0), {}, &others));
  SplitArrays arrays;
  for (size_t i = 0; i < inputs.size(); ++i) {
    MANTISSA_ASSIGN(NpyArray array, take_array(split, split.files[1 + i], all));
    const ChannelAxis known = inputs[i].channels_first ? ChannelAxis::kFirst : ChannelAxis::kLast;
    MANTISSA_ASSIGN(inputs[i].channels_first,
                    check_array(split, array, inputs[i], axis.value_or(known)));
    arrays.inputs.push_back(std::move(array));
  }
  for (size_t i = 1 + inputs.size(); i < split.files.size(); ++i) {
    MANTISSA_ASSIGN(NpyArray targets, take_array(split, split.files[i], all));
    arrays.targets.push_back(std::move(targets));
  }
  MANTISSA_RETURN_IF_ERROR(check_all_counts(split, arrays));
  if (arrays.targets.size() == 1) leave_out_ignored(split, arrays.targets[0], arrays.inputs);
  for (const ArrayInput& input : inputs) {
    MANTISSA_ASSIGN(std::vector<int32_t> lengths, lengths_for(split, input, inputs, arrays.inputs));
    arrays.lengths.push_back(std::move(lengths));
  }
  return arrays;
}

// The arrays of all splits.
Status find_splits(const fs::path& archive, const NamedPlaces& places, FoundData& found) {
  std::vector<OtherArray> others;
  MANTISSA_ASSIGN(const std::vector<NpyArray> arrays, read_npz(archive, {}, &others));
  std::vector<std::string> names;
  for (const NpyArray& array : arrays) {
    names.push_back(array.name);
    found.array_bytes += std::ssize(array.data);
  }
  // Arrays of texts count as there, so that the message says what they are.
  for (const OtherArray& other : others) {
    const auto is_input = reads_array(other.name, places);
    if (is_input) return unread_array(archive, other, *is_input);
    found.notes.push_back(unread_note(other));
  }
  MANTISSA_ASSIGN(SplitNames splits, find_roles(archive, names, places));
  for (std::string& note : splits.notes) found.notes.push_back(std::move(note));
  found.train = split_of_names(archive, std::move(splits.train));
  if (!splits.validation.empty()) {
    found.validation = split_of_names(archive, std::move(splits.validation));
  }
  if (!splits.test.empty()) found.test = split_of_names(archive, std::move(splits.test));
  if (found.test.files.empty() && !found.validation.files.empty()) {
    found.test = std::exchange(found.validation, {});
    found.notes.push_back("there are no test arrays: those for validation are taken for them");
  }
  return {};
}

// Tells the splits the label that they ignore, with a note for each.
Status take_ignored_label(const DataOptions& options, const NamedPlaces& places, FoundData& found) {
  if (!options.table.ignored_label) return {};
  if (!places.outputs.empty()) {
    return invalid_input("ignore-label: is for networks with one output, and this one has several");
  }
  const auto& known = options.schema;
  if (known ? known->has_labels_in_order : options.table.classes_in_order > 0) {
    return invalid_input(
        "ignore-label: is for classes of examples or places, and these labels are "
        "in an order: -1 fills their rows up");
  }
  return take_ignored_label(options.table.ignored_label, labels_in, found);
}

// Means and deviations of numbers, and the targets, from the split's part.
Result<TableSchema> named_schema(const DataOptions& options, const FoundSplit& train,
                               FoundData& found) {
  TableSchema schema;
  schema.inputs = options.table.inputs;
  MANTISSA_ASSIGN(const SplitArrays arrays,
                  read_split(train, options.table.channel_axis, schema.inputs));
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    ArrayInput& input = schema.inputs[i];
    if (input.kind != ArrayKind::kNumbers) continue;
    MANTISSA_ASSIGN(input.columns,
                    channel_columns(train, {arrays.inputs[i], {input.shape, input.channels_first},
                                            arrays.lengths[i]}));
  }
  MANTISSA_RETURN_IF_ERROR(take_targets(train, arrays.targets, options.table, found, schema));
  return schema;
}

// Examples of the split's part, whose arrays fit the schema.
Result<int64_t> count_named(const FoundSplit& split, const TableSchema& schema) {
  std::vector<ArrayInput> inputs = schema.inputs;
  MANTISSA_ASSIGN(const SplitArrays arrays, read_split(split, {}, inputs));
  MANTISSA_RETURN_IF_ERROR(check_targets(split, arrays.targets, schema));
  int64_t count = 0;
  const int64_t rows = arrays.targets[0].shape[0];
  for (int64_t n = 0; n < rows; ++n) count += is_of_part(n, split.part);
  return count;
}

// Settings of tables that have no use here.
Status check_choices(const TableChoices& table) {
  struct Choice {
    const char* name;
    const std::string& text;
  };
  for (const Choice& choice : {Choice{"row-weights", table.weights}, Choice{"target", table.target},
                               Choice{"ignore", table.ignore}}) {
    if (choice.text.empty()) continue;
    return invalid_input(std::string(choice.name) + ": names a column of a table; the arrays of a "
                         "network with several inputs are called as its inputs, and the targets y, "
                         "or as its outputs if it has several");
  }
  return {};
}

Result<int64_t> append_inputs(const FoundSplit& split, const SplitArrays& arrays,
                              const TableSchema& schema, const ReadOptions& options,
                              ExampleSet& set) {
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    MANTISSA_ASSIGN(const ChangedNumbers changed,
                    append_input(split, arrays.inputs[i], schema.inputs[i], arrays.lengths[i],
                                 set.tensors[i]));
    if (options.notes == nullptr) continue;
    for (std::string& note : notes_about(changed, arrays.inputs[i])) {
      options.notes->push_back(std::move(note));
    }
  }
  return std::ssize(set.tensors[0].bytes()) / set.tensors[0].example_bytes();
}

// The names of the arrays that the network, or the schema that it is known by, reads.
NamedPlaces places_of(const TableSchema& schema) {
  NamedPlaces places{schema.inputs};
  for (const TableSchema& output : schema.outputs) places.outputs.push_back(output.output);
  return places;
}

NamedPlaces places_of(const DataOptions& options) {
  if (options.schema) return places_of(*options.schema);
  NamedPlaces places{options.table.inputs};
  for (const WantedTarget& output : options.table.outputs) places.outputs.push_back(output.name);
  return places;
}

}  // namespace

bool wants_names(const DataOptions& options) {
  return options.schema ? options.schema->has_named_inputs() : !options.table.inputs.empty();
}

Result<FoundData> inspect_named(const fs::path& path, const DataOptions& options) {
  MANTISSA_RETURN_IF_ERROR(check_choices(options.table));
  FoundData found;
  MANTISSA_ASSIGN(const fs::path archive, archive_at(path));
  MANTISSA_RETURN_IF_ERROR(find_splits(archive, places_of(options), found));
  MANTISSA_RETURN_IF_ERROR(take_ignored_label(options, places_of(options), found));
  const bool keeps_some = found.test.files.empty();
  if (keeps_some) {
    found.train.part = RowPart::kTrain;
    found.test = found.train;
    found.test.part = RowPart::kTest;
    found.notes.push_back("there are no test arrays: one example in five is kept for testing");
  }
  found.table = options.schema;
  if (!found.table) {
    MANTISSA_ASSIGN(found.table, named_schema(options, found.train, found));
    if (options.learned) {
      MANTISSA_RETURN_IF_ERROR(take_learned_channels(*options.learned, *found.table));
    }
  }
  for (FoundSplit* split : {&found.train, &found.validation, &found.test}) {
    if (split->files.empty()) continue;
    MANTISSA_ASSIGN(split->count, count_named(*split, *found.table));
  }
  found.target = target_of(*found.table);
  found.nouns = {"examples", "arrays"};
  return found;
}

Result<ExampleSet> read_named(const FoundData& found, const FoundSplit& split,
                              const ReadOptions& options) {
  TableSchema schema = *found.table;
  ExampleSet set = row_set(schema, false);
  try {
    MANTISSA_ASSIGN(const SplitArrays arrays,
                    read_split(split, {}, schema.inputs));
    MANTISSA_ASSIGN(set.count, append_inputs(split, arrays, schema, options, set));
    for (size_t i = 0; i < arrays.targets.size(); ++i) {
      const TableSchema& of_targets = schema.outputs.empty() ? schema : schema.outputs[i];
      MANTISSA_RETURN_IF_ERROR(append_targets(split, arrays.targets[i], of_targets, set));
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(split.count) + " examples of " + quoted(split.file(0)),
                         split.count * set.example_bytes());
  }
  if (set.count == split.count) return set;
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

Result<ExampleSet> read_named_inputs(const fs::path& path, const TableSchema& schema,
                                     const ReadOptions& options) {
  std::vector<OtherArray> others;
  std::vector<std::string> names;
  {
    MANTISSA_ASSIGN(const std::vector<NpyArray> all, read_npz(path, {}, &others));
    for (const NpyArray& array : all) names.push_back(array.name);
  }
  MANTISSA_ASSIGN(ArrayNames found, find_inputs(path, names, places_of(schema)));
  found.resize(schema.inputs.size());
  const FoundSplit split = split_of_names(path, std::move(found));
  TableSchema known = schema;
  ExampleSet set = row_set(known, false);
  set.tensors.resize(known.inputs.size());
  try {
    MANTISSA_ASSIGN(const SplitArrays arrays,
                    read_split(split, {}, known.inputs));
    MANTISSA_ASSIGN(set.count, append_inputs(split, arrays, known, options, set));
  } catch (const std::bad_alloc&) {
    return out_of_memory("the examples of " + quoted(path), set.example_bytes());
  }
  return set;
}

}  // namespace mantissa
