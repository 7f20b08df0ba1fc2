#include "data/readers/shaped_arrays.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include "base/sizes.h"
#include "data/readers/array_files.h"
#include "data/tables/table_columns.h"
#include "data/tables/table_encoder.h"
#include "data/tables/table_rows.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

std::string place_of(const FoundSplit& split, const NpyArray& array) {
  return quoted(split.file(0)) + ": '" + array.name + "' " + shape_text(array);
}

// The dimensions of an example without channels: positions, or height and width.
std::vector<int64_t> places_of(const Shape& shape) {
  std::vector<int64_t> places = dims_of(shape);
  places.pop_back();
  return places;
}

std::vector<int64_t> with_channels_first(const Shape& shape) {
  std::vector<int64_t> dims = places_of(shape);
  dims.insert(dims.begin(), shape.last());
  return dims;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "[N";
  for (const int64_t dim : dims) text += ", " + std::to_string(dim);
  return text + "]";
}

// Whether the channels of the examples come first; an error if they have not that shape.
Result<bool> has_channels_first(const FoundSplit& split, const NpyArray& x, const Shape& shape,
                                ChannelAxis wanted) {
  const std::vector<int64_t> dims(x.shape.begin() + std::min<size_t>(1, x.shape.size()),
                                  x.shape.end());
  const std::vector<int64_t> last = dims_of(shape), first = with_channels_first(shape);
  const bool one_channel = shape.last() == 1 && dims == places_of(shape);
  const bool fits_last = dims == last || one_channel, fits_first = dims == first;
  const bool one_order = shape.last() == 1 || shape.count() == shape.last();
  if (fits_last && fits_first && !one_order && wanted == ChannelAxis::kByShape) {
    return invalid_input(place_of(split, x) +
                         " may have its channels first or last: --channels first, or --channels "
                         "last, says which");
  }
  if (fits_last && wanted != ChannelAxis::kFirst) return false;
  if (fits_first && wanted != ChannelAxis::kLast) return true;
  if (one_channel) return false;
  return invalid_input(place_of(split, x) + " has not the examples that the network takes, " +
                       dims_text(last) + " or with the channels first " + dims_text(first) +
                       (fits_last || fits_first ? ", and --channels names the other" : ""));
}

// Elements of an example in the order of the network: [..., C].
struct ExampleOrder {
  int64_t channels, places;
  bool channels_first;

  ExampleOrder(const Shape& shape, bool first)
      : channels(shape.last()), places(shape.count() / shape.last()), channels_first(first) {}
  int64_t count() const { return channels * places; }
  int64_t channel(int64_t i) const { return i % channels; }
  int64_t stored(int64_t i) const {
    return channels_first ? i % channels * places + i / channels : i;
  }
};

// Mean and deviation of each channel over the examples of a part.
Result<std::vector<TableColumn>> channel_columns(const FoundSplit& split, const NpyArray& x,
                                                 const ExampleOrder& order) {
  const NumberAt number = number_reader(x.type);
  struct Sums {
    int64_t count = 0, missing = 0;
    double sum = 0, squares = 0, mean = 0, largest = 0;
  };
  std::vector<Sums> all(static_cast<size_t>(order.channels));
  bool is_finite = true;
  const auto visit = [&](const auto& add) {
    for (int64_t n = 0; n < x.shape[0]; ++n) {
      if (!is_of_part(n, split.part)) continue;
      for (int64_t i = 0; i < order.count(); ++i) {
        add(all[static_cast<size_t>(order.channel(i))],
            number(x, n * order.count() + order.stored(i)));
      }
    }
  };
  visit([&](Sums& sums, double value) {
    if (std::isnan(value)) return void(++sums.missing);
    is_finite = is_finite && std::isfinite(value);
    ++sums.count;
    sums.sum += value;
    sums.largest = std::max(sums.largest, std::abs(value));
  });
  if (!is_finite) return invalid_input(place_of(split, x) + " has infinite numbers");
  for (Sums& sums : all) {
    sums.mean = sums.count > 0 ? sums.sum / static_cast<double>(sums.count) : 0;
  }
  visit([](Sums& sums, double value) {
    if (!std::isnan(value)) sums.squares += (value - sums.mean) * (value - sums.mean);
  });
  constexpr double kRounding = 0x1p-42;  // a smaller deviation is rounding alone
  std::vector<TableColumn> columns;
  for (const Sums& sums : all) {
    const double deviation =
        sums.count > 0 ? std::sqrt(sums.squares / static_cast<double>(sums.count)) : 0;
    columns.push_back({.name = std::to_string(columns.size() + 1),
                       .mean = sums.mean,
                       .deviation = deviation > kRounding * sums.largest
                                        ? deviation
                                        : std::max(1.0, sums.largest),
                       .missing = sums.missing});
  }
  return columns;
}

// One target for each example, as the target of a table; the notes about it are taken over.
Result<TableColumn> example_target(const FoundSplit& split, const NpyArray& y,
                                   const DataOptions& options, FoundData& found) {
  NpyArray twice = y;  // a table wants an input, too
  twice.name = "x";
  MANTISSA_ASSIGN(const auto rows, array_rows(quoted(split.file(0)), std::move(twice), y));
  TableChoices choices;
  choices.task = options.table.task;
  MANTISSA_ASSIGN(FoundSchema schema, find_schema(*rows, split.part, choices));
  for (std::string& note : schema.notes) {
    if (note.find("the target") != std::string::npos) found.notes.push_back(std::move(note));
  }
  return std::move(schema.schema.target);
}

// Labels of places: whole numbers from 0 on.
Result<Label> place_label(const FoundSplit& split, const NpyArray& y, double number) {
  if (number >= 0 && number < kMaxClasses && number == std::floor(number)) {
    return static_cast<Label>(number);
  }
  return invalid_input(place_of(split, y) + " has a label that is no whole number from 0 to " +
                       std::to_string(kMaxClasses - 1));
}

// A class for each position or pixel: as many as the largest label says.
Result<TableColumn> place_target(const FoundSplit& split, const NpyArray& y) {
  const NumberAt number = number_reader(y.type);
  const int64_t count = std::ssize(y.data) / npy_element_bytes(y.type);
  Label largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    MANTISSA_ASSIGN(const Label label, place_label(split, y, number(y, i)));
    largest = std::max(largest, label);
  }
  if (largest == 0) {
    return invalid_input(place_of(split, y) + " is 0 everywhere: there is nothing to learn");
  }
  return TableColumn{.name = "y", .categories = numbered_classes(int{largest} + 1)};
}

// The shape of an example's labels: none, or the places'.
Result<Shape> label_shape_of(const FoundSplit& split, const ArrayPair& pair, const Shape& shape) {
  const std::vector<int64_t>& dims = pair.y.shape;
  const bool is_one = dims.size() == 1 || (dims.size() == 2 && dims[1] == 1);
  if (dims.empty() || pair.x.shape.empty() || dims[0] != pair.x.shape[0]) {
    return invalid_input(place_of(split, pair.y) + " has not as many examples as '" + pair.x.name +
                         "' " + shape_text(pair.x));
  }
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
  TableSchema schema;
  schema.shape = options.table.shape;
  MANTISSA_ASSIGN(schema.channels_first, has_channels_first(train, pair.x, schema.shape,
                                                            options.table.channel_axis));
  MANTISSA_ASSIGN(schema.label_shape, label_shape_of(train, pair, schema.shape));
  MANTISSA_ASSIGN(schema.columns,
                  channel_columns(train, pair.x, {schema.shape, schema.channels_first}));
  if (schema.label_shape.rank > 0) {
    MANTISSA_ASSIGN(schema.target, place_target(train, pair.y));
  } else {
    MANTISSA_ASSIGN(schema.target, example_target(train, pair.y, options, found));
  }
  return schema;
}

// Examples of a split, which must have the schema's shape.
Result<int64_t> count_examples(const FoundSplit& split, const TableSchema& schema) {
  MANTISSA_ASSIGN(const ArrayPair pair, read_pair(split));
  MANTISSA_ASSIGN(const bool first,
                  has_channels_first(split, pair.x, schema.shape,
                                     schema.channels_first ? ChannelAxis::kFirst
                                                           : ChannelAxis::kLast));
  MANTISSA_ASSIGN(const Shape labels, label_shape_of(split, pair, schema.shape));
  static_cast<void>(first);
  if (labels == schema.label_shape) {
    int64_t count = 0;
    for (int64_t n = 0; n < pair.x.shape[0]; ++n) count += is_of_part(n, split.part);
    return count;
  }
  return invalid_input(place_of(split, pair.y) + " has other targets than the training array");
}

// Appends the targets of a split's examples.
Status append_targets(const FoundSplit& split, const NpyArray& y, const TableSchema& schema,
                      ExampleSet& set) {
  if (schema.label_shape.rank > 0) {
    auto& labels = set.find(kLabelTensor)->as<Label>();
    const NumberAt number = number_reader(y.type);
    const int64_t places = schema.label_shape.count();
    for (int64_t i = 0; i < y.shape[0] * places; ++i) {
      if (!is_of_part(i / places, split.part)) continue;
      MANTISSA_ASSIGN(const Label label, place_label(split, y, number(y, i)));
      if (label >= std::ssize(schema.target.categories)) {
        return invalid_input(place_of(split, y) + " has the label " + std::to_string(label) +
                             ", which no training example has");
      }
      labels.push_back(label);
    }
    return {};
  }
  if (!schema.more_targets.empty()) {
    return invalid_input(quoted(split.file(0)) + ": '" + y.name + "' " + shape_text(y) +
                         " has several targets for each example; of inputs with positions one is "
                         "possible");
  }
  NpyArray twice = y;
  twice.name = "x";
  MANTISSA_ASSIGN(const auto rows, array_rows(quoted(split.file(0)), std::move(twice), y));
  TableSchema target_alone;
  target_alone.target = schema.target;
  MANTISSA_ASSIGN(TableEncoder encoder, TableEncoder::create(target_alone, *rows));
  for (int64_t n = 0; n < y.shape[0]; ++n) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (!is_of_part(n, split.part)) continue;
    MANTISSA_ASSIGN(const TableTarget target, encoder.target(row));
    if (!target.is_known) return invalid_input(rows->place() + ": has no target");
    if (StoredTensor* const targets = set.find(kTargetTensor)) {
      targets->as<int16_t>().push_back(
          standardised(target.numbers[0], schema.target, kTargetExponent));
    } else {
      set.find(kLabelTensor)->as<Label>().push_back(static_cast<Label>(target.label));
    }
  }
  return {};
}

// Appends the numbers of a split's examples, standardised by channel; returns how many were
// clipped.
int64_t append_numbers(const FoundSplit& split, const NpyArray& x, const TableSchema& schema,
                       ExampleSet& set) {
  const ExampleOrder order(schema.shape, schema.channels_first);
  const NumberAt number = number_reader(x.type);
  auto& numbers = set.tensors[0].as<int16_t>();
  int64_t clipped = 0;
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    if (!is_of_part(n, split.part)) continue;
    ++set.count;
    for (int64_t i = 0; i < order.count(); ++i) {
      const double value = number(x, n * order.count() + order.stored(i));
      const TableColumn& column = schema.columns[static_cast<size_t>(order.channel(i))];
      const int16_t mantissa =
          std::isnan(value) ? int16_t{0} : standardised(value, column, kFeatureExponent);
      numbers.push_back(mantissa);
      clipped += mantissa == INT16_MAX || mantissa == -INT16_MAX;
    }
  }
  return clipped;
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
    const int64_t clipped = append_numbers(split, pair.x, schema, set);
    MANTISSA_RETURN_IF_ERROR(append_targets(split, pair.y, schema, set));
    if (clipped > 0 && options.notes != nullptr) {
      options.notes->push_back(std::to_string(clipped) + " numbers of '" + pair.x.name +
                               "' lie 8 deviations or more from the mean of their channel, and "
                               "are clipped there");
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(split.count) + " examples of " + quoted(split.file(0)),
                         split.count * set.example_bytes());
  }
  if (set.count == split.count) return set;
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

}  // namespace mantissa
