#include "data/arrays/shaped_arrays.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/sizes.h"
#include "data/arrays/array_files.h"
#include "data/arrays/array_targets.h"
#include "data/arrays/channel_numbers.h"

namespace mantissa {
namespace {

// The shape of an example's labels: none, or the places'.
Result<Shape> label_shape_of(const FoundSplit& split, const ArrayPair& pair, const Shape& shape) {
  const std::vector<int64_t>& dims = pair.y.shape;
  const bool is_one = dims.size() == 1 || (dims.size() == 2 && dims[1] == 1);
  MANTISSA_RETURN_IF_ERROR(check_counts(split, pair.x, pair.y));
  if (is_one) return Shape{};
  const std::vector<int64_t> places = places_of(shape);
  if (std::equal(dims.begin() + 1, dims.end(), places.begin(), places.end())) {
    Shape of_places = shape;
    of_places.dims[static_cast<size_t>(--of_places.rank)] = 1;
    return of_places;
  }
  return invalid_input(place_of(split, pair.y) +
                       " has neither one target for each example nor one for each of its places, " +
                       dims_text(places));
}

// Means, deviations and classes, from the training examples that the part says.
Result<TableSchema> find_shaped(const DataOptions& options, RowPart part, FoundData& found) {
  FoundSplit& train = found.train;
  train.part = part;
  MANTISSA_ASSIGN(const ArrayPair pair, read_pair(train));
  if (pair.x.shape.empty() || pair.x.shape[0] == 0) {
    return invalid_input(place_of(train, pair.x) + " has no examples");
  }
  TableSchema schema;
  schema.shape = options.table.shape;
  MANTISSA_ASSIGN(schema.channels_first, has_channels_first(train, pair.x, schema.shape,
                                                            options.table.channel_axis));
  MANTISSA_ASSIGN(schema.label_shape, label_shape_of(train, pair, schema.shape));
  MANTISSA_ASSIGN(schema.columns,
                  channel_columns(train, {pair.x, {schema.shape, schema.channels_first}}));
  if (schema.label_shape.rank > 0) {
    MANTISSA_ASSIGN(schema.target, place_target(train, pair.y, found));
  } else {
    MANTISSA_ASSIGN(const auto targets, example_targets(train, pair.y, options.table.task, found));
    schema.target = targets[0];
  }
  if (options.learned) {
    MANTISSA_RETURN_IF_ERROR(take_learned_channels(*options.learned, schema));
  }
  return schema;
}

// Examples of a split, which must have the schema's shape.
Result<int64_t> count_examples(const FoundSplit& split, const TableSchema& schema) {
  MANTISSA_ASSIGN(const ArrayPair pair, read_pair(split));
  const ChannelAxis axis = schema.channels_first ? ChannelAxis::kFirst : ChannelAxis::kLast;
  const auto fits = has_channels_first(split, pair.x, schema.shape, axis);
  if (!fits.ok()) {
    const auto other = has_channels_first(split, pair.x, schema.shape, ChannelAxis::kByShape);
    if (!other.ok()) return other.error();
    return invalid_input(place_of(split, pair.x) + " has its channels " +
                         (*other ? "first" : "last") + ", and the network was trained with them " +
                         (schema.channels_first ? "first" : "last") + ": exchange its axes");
  }
  MANTISSA_ASSIGN(const Shape labels, label_shape_of(split, pair, schema.shape));
  if (labels == schema.label_shape) {
    int64_t count = 0;
    for (int64_t n = 0; n < pair.x.shape[0]; ++n) count += is_of_part(n, split.part);
    return count;
  }
  return invalid_input(place_of(split, pair.y) + " has other targets than the training array");
}

}  // namespace

bool wants_shape(const DataOptions& options) {
  return options.schema ? options.schema->is_shaped() : options.table.shape.rank > 1;
}

Status inspect_shaped(const DataOptions& options, FoundData& found) {
  if (!options.table.weights.empty()) {
    return invalid_input("row-weights: arrays of " + to_string(options.table.shape) +
                         " have no column of weights");
  }
  if (found.test.files.empty() && !found.validation.files.empty()) {
    found.test = std::exchange(found.validation, {});
    found.notes.push_back("there are no test arrays: those for validation are taken for them");
  }
  const bool keeps_some = found.test.files.empty();
  const RowPart part = keeps_some ? RowPart::kTrain : RowPart::kAll;
  if (options.schema) {
    found.table = options.schema;
    found.train.part = part;
  } else {
    MANTISSA_ASSIGN(found.table, find_shaped(options, part, found));
  }
  if (keeps_some) {
    found.test = found.train;
    found.test.part = RowPart::kTest;
    found.notes.push_back("there are no test arrays: one example in five is kept for testing");
  }
  for (FoundSplit* split : {&found.train, &found.validation, &found.test}) {
    if (split->files.empty()) continue;
    MANTISSA_ASSIGN(split->count, count_examples(*split, *found.table));
  }
  found.target = target_of(*found.table);
  found.nouns = {"examples", "arrays"};
  return {};
}

Result<ExampleSet> read_shaped(const FoundData& found, const FoundSplit& split,
                               const ReadOptions& options) {
  const TableSchema& schema = *found.table;
  ExampleSet set = row_set(schema, false);
  try {
    MANTISSA_ASSIGN(const ArrayPair pair, read_pair(split));
    MANTISSA_RETURN_IF_ERROR(count_examples(split, schema));
    set.tensors[0].as<int16_t>().reserve(static_cast<size_t>(split.count * schema.features()));
    MANTISSA_ASSIGN(
        const ChangedNumbers changed,
        append_standardised(split, {pair.x, {schema.shape, schema.channels_first}}, schema.columns,
                            set.tensors[0].as<int16_t>()));
    set.count = std::ssize(set.tensors[0].as<int16_t>()) / schema.features();
    MANTISSA_RETURN_IF_ERROR(append_targets(split, pair.y, schema, set));
    if (options.notes != nullptr) {
      for (std::string& note : notes_about(changed, pair.x)) {
        options.notes->push_back(std::move(note));
      }
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(split.count) + " examples of " + quoted(split.file(0)),
                         split.count * set.example_bytes());
  }
  if (set.count == split.count) return set;
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

}  // namespace mantissa
