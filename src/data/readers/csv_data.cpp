// Data sets of CSV files: one file, or a folder with one for each split.
#include <algorithm>
#include <array>
#include <utility>

#include "base/files/file_system.h"
#include "data/datasets/class_folders.h"
#include "data/readers/picture_column.h"
#include "data/readers/table_reader.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// Any file that is named is read; in folders only the first two are looked for.
constexpr std::array<std::string_view, 5> kSuffixes = {".csv", ".tsv", ".tab", ".data", ".txt"};

bool is_csv(const fs::path& file, size_t suffixes) {
  std::string suffix = file.extension().string();
  for (char& c : suffix) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::find(kSuffixes.begin(), kSuffixes.begin() + suffixes, suffix) !=
         kSuffixes.begin() + suffixes;
}

bool is_csv_table(const fs::path& file) { return is_csv(file, kSuffixes.size()); }

// The names of a folder's CSV files.
Result<std::vector<std::string>> csv_files(const fs::path& folder) {
  MANTISSA_ASSIGN(std::vector<std::string> names, list_names(folder));
  std::erase_if(names, [&](const std::string& name) {
    return name.starts_with('.') || !is_csv(name, 2) || is_folder(folder / name);
  });
  return names;
}

// A folder with a training file, or with one file alone.
bool has_csv_tables(const fs::path& folder) {
  const auto names = csv_files(folder);
  if (!names.ok()) return false;
  const auto is_train = [](const std::string& name) {
    return split_of(fs::path(name).stem().string()) == Split::kTrain;
  };
  if (std::any_of(names->begin(), names->end(), is_train)) return true;
  const auto entries = list_folder(folder);
  return names->size() == 1 && entries.ok() && all_folders(*entries).empty() &&
         entries->pictures.empty();
}

Result<std::unique_ptr<TableRows>> open_csv(const FoundSplit& split, const TableFormat& format) {
  return open_csv_rows(split.file(0), format);
}

// The file of each split in a folder. Others are passed over, with a note.
Status find_files(const fs::path& folder, FoundData& found) {
  MANTISSA_ASSIGN(const std::vector<std::string> names, csv_files(folder));
  for (const std::string& name : names) {
    const auto split = split_of(fs::path(name).stem().string());
    FoundSplit* const place = split == Split::kTrain        ? &found.train
                              : split == Split::kValidation ? &found.validation
                              : split == Split::kTest       ? &found.test
                              : names.size() == 1           ? &found.train
                                                            : nullptr;
    if (place == nullptr) {
      found.notes.push_back(quoted(folder / name) + " is not read: it is named as no split");
      continue;
    }
    if (!place->files.empty()) {
      return invalid_input(quoted(place->file(0)) + " and " + quoted(folder / name) +
                           " are named as the same split; remove or rename one of them");
    }
    place->folder = folder;
    place->files = {name};
  }
  return {};
}

Result<FoundData> inspect_csv(const fs::path& path, const DataOptions& options) {
  FoundData found;
  if (is_folder(path)) {
    MANTISSA_RETURN_IF_ERROR(find_files(path, found));
  } else {
    found.train.folder = path.parent_path();
    found.train.files = {path.filename().string()};
  }
  const bool has_pictures = options.schema ? options.schema->picture.has_value()
                                           : options.table.picture.rank > 0;
  MANTISSA_RETURN_IF_ERROR((has_pictures ? inspect_picture_table : inspect_table)(open_csv, options,
                                                                                 found));
  return found;
}

Result<ExampleSet> read_csv(const FoundData& found, const FoundSplit& split,
                            const ReadOptions& options) {
  const auto read = found.table->picture ? read_picture_table : read_table;
  return read(open_csv, found, split, options);
}

}  // namespace

const DataReader kCsvReader = {"CSV files",    "NAME.csv, or a folder with train.csv and test.csv",
                               has_csv_tables, inspect_csv,
                               read_csv,       is_csv_table};

}  // namespace mantissa
