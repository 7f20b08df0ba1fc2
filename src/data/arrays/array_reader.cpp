// Data sets of NumPy's arrays: an NPZ file with inputs and targets, or a folder with x.npy and
// y.npy, each of all rows or one for each split.
#include <utility>

#include "data/arrays/array_files.h"
#include "data/arrays/array_pictures.h"
#include "data/arrays/named_arrays.h"
#include "data/arrays/shaped_arrays.h"
#include "data/readers/table_reader.h"

namespace mantissa {
namespace {

Result<std::unique_ptr<TableRows>> open(const FoundSplit& split, const TableFormat& format) {
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  return array_rows(quoted(split.file(0)), std::move(pair.x), std::move(pair.y), format);
}

Result<NpyArray> labels_of_pair(const FoundSplit& split) {
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  return std::move(pair.y);
}

int64_t targets_of(const NpyArray& y) { return y.shape.size() == 2 ? y.shape[1] : 1; }

// That all splits have as many targets, those that the network knows: others would count as rows
// without a target. A note for arrays whose rows have axes.
Status check_rows(const ArrayPair& train, const DataOptions& options, FoundData& found) {
  const auto wrong = [](const FoundSplit& split, const NpyArray& y, const std::string& wants) {
    return invalid_input(place_of(split, y) + " has " + std::to_string(targets_of(y)) +
                         " targets for each row, and " + wants);
  };
  if (options.schema) {
    const auto targets = std::ssize(options.schema->targets());
    const std::string wants = "the network's training had " + std::to_string(targets);
    if (targets_of(train.y) != targets) return wrong(found.train, train.y, wants);
  }
  for (const FoundSplit* split : {&found.validation, &found.test}) {
    if (split->files.empty()) continue;
    MANTISSA_ASSIGN(const ArrayPair pair, read_pair(*split));
    if (targets_of(pair.y) == targets_of(train.y)) continue;
    return wrong(*split, pair.y,
                 "'" + train.y.name + "' " + std::to_string(targets_of(train.y)));
  }
  if (train.x.shape.size() < 3) return {};
  int64_t columns = 1;
  std::string shape;
  for (size_t i = 1; i < train.x.shape.size(); ++i) {
    columns *= train.x.shape[i];
    shape += (i > 1 ? ", " : "") + std::to_string(train.x.shape[i]);
  }
  found.notes.push_back("'" + train.x.name + "' " + shape_text(train.x) + " is taken for rows of " +
                        std::to_string(columns) + " columns; a network whose input 'numbers' is [" +
                        shape + "] takes positions or pictures with channels");
  return {};
}

Result<FoundData> inspect_arrays(const std::filesystem::path& path, const DataOptions& options) {
  if (wants_names(options)) return inspect_named(path, options);
  MANTISSA_ASSIGN(FoundData found, find_array_files(path));
  MANTISSA_RETURN_IF_ERROR(take_ignored_label(options.table.ignored_label, labels_of_pair, found));
  if (wants_shape(options)) {
    MANTISSA_RETURN_IF_ERROR(inspect_shaped(options, found));
    return found;
  }
  bool pictures = false;
  {
    MANTISSA_ASSIGN(const ArrayPair pair, read_pair(found.train));
    pictures = are_pictures(pair.x);
    if (!pictures) MANTISSA_RETURN_IF_ERROR(check_rows(pair, options, found));
  }
  MANTISSA_RETURN_IF_ERROR(pictures ? inspect_array_pictures(found)
                                    : inspect_table(open, options, found));
  return found;
}

Result<ExampleSet> read_arrays(const FoundData& found, const FoundSplit& split,
                               const ReadOptions& options) {
  if (found.table && found.table->has_named_inputs()) return read_named(found, split, options);
  if (found.table && found.table->is_shaped()) return read_shaped(found, split, options);
  if (found.table) return read_table(open, found, split, options);
  return read_array_pictures(found, split, options);
}

}  // namespace

const DataReader kArrayReader = {"NumPy arrays",
                                 "NAME.npz with x and y, or x_train, y_train, x_test and y_test; "
                                 "or a folder with x.npy and y.npy",
                                 is_array_folder,
                                 inspect_arrays,
                                 read_arrays,
                                 is_array_file};

}  // namespace mantissa
