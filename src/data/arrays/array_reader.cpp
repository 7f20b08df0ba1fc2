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

Result<FoundData> inspect_arrays(const std::filesystem::path& path, const DataOptions& options) {
  if (wants_names(options)) return inspect_named(path, options);
  MANTISSA_ASSIGN(FoundData found, find_array_files(path));
  if (wants_shape(options)) {
    MANTISSA_RETURN_IF_ERROR(inspect_shaped(options, found));
    return found;
  }
  bool pictures = false;
  {
    MANTISSA_ASSIGN(const ArrayPair pair, read_pair(found.train));
    pictures = are_pictures(pair.x);
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
