#include "data/datasets/find_dataset.h"

#include <array>
#include <cstdlib>

#include "data/datasets/class_folders.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemFolder = "/usr/share/datasets";

constexpr std::array kFashionMnistClasses = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                             "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                             "Bag",         "Ankle boot"};

// Data sets that are known by name.
struct NamedData {
  const char* name;
  const char* how_to_get;
  std::span<const char* const> class_names;  // if its files have none
};
constexpr NamedData kNamed[] = {
    {"fashion-mnist", "install Debian's package dataset-fashion-mnist", kFashionMnistClasses},
    {"cifar-10", "unpack its binary version there", {}},
    {"cifar-100", "unpack its binary version there", {}},
};

const NamedData* find_named(const std::string& name) {
  for (const NamedData& named : kNamed) {
    if (name == named.name) return &named;
  }
  return nullptr;
}

// An error for a file that no reader takes, with the way to data that can be read.
Status check_file(const fs::path& file) {
  for (const DataReader* reader : data_readers()) {
    if (reader->recognises_file != nullptr && reader->recognises_file(file)) return {};
  }
  const std::string suffix = file.extension().string();
  if (suffix == ".parquet" || suffix == ".feather" || suffix == ".arrow") {
    return invalid_input(quoted(file) + ": is read from Python alone: pandas.read_parquet(...)" +
                         ".to_csv('" + file.stem().string() + ".csv', index=False) makes a file " +
                         "that --data takes");
  }
  return invalid_input(quoted(file) + " is a file; give the folder that holds it, " +
                       quoted(whole_path(file).parent_path()) +
                       ", or unpack it if it is an archive; files of .csv, .npz and .npy are read "
                       "by themselves");
}

Result<fs::path> find_path(const std::string& name_or_path) {
  const NamedData* named = find_named(name_or_path);
  if (named == nullptr) {
    if (is_folder(name_or_path)) return fs::path(name_or_path);
    if (is_file(name_or_path)) {
      MANTISSA_RETURN_IF_ERROR(check_file(name_or_path));
      return fs::path(name_or_path);
    }
    std::string names;
    for (const NamedData& known : kNamed) names += std::string(known.name) + ", ";
    return invalid_input("no data set '" + name_or_path + "': give " + names +
                         "a CSV or NPZ file, or a folder with IDX files, CIFAR's binary files, "
                         "tables, arrays or pictures");
  }
  std::vector<fs::path> candidates;
  if (const char* folder = std::getenv("MANTISSA_DATA"); folder != nullptr && *folder != '\0') {
    candidates.push_back(fs::path(folder) / named->name);
  }
  candidates.push_back(fs::path(kSystemFolder) / named->name);
  std::string looked;
  for (const fs::path& candidate : candidates) {
    if (is_folder(candidate)) return candidate;
    looked += (looked.empty() ? "" : ", ") + quoted(candidate);
  }
  return invalid_input(name_or_path + " is not at " + looked + ": " + named->how_to_get +
                       ", or pass the folder that holds it");
}

Result<const DataReader*> find_reader(const fs::path& folder) {
  std::string kinds;
  const bool is_one_file = !is_folder(folder);
  for (const DataReader* reader : data_readers()) {
    const auto recognises = is_one_file ? reader->recognises_file : reader->recognises;
    if (recognises != nullptr && recognises(folder)) return reader;
    if (reader->looks_for == nullptr) continue;
    kinds += std::string(kinds.empty() ? "" : "; ") + reader->kind + " (" + reader->looks_for + ")";
  }
  return invalid_input(quoted(folder) + " holds no data set; understood are " + kinds);
}

// A hint: a data set in the folders of this one or one level below, of a kind that is known by
// names of files. "" if there is none.
std::string hint_below(const fs::path& folder, int levels) {
  const auto entries = list_folder(folder);
  if (!entries.ok()) return "";
  for (const std::string& name : all_folders(*entries)) {
    const fs::path below = folder / name;
    if (!list_folder(below).ok()) continue;  // a path that cannot be examined counts as there
    for (const DataReader* reader : {&kIdxReader, &kCifar10Reader, &kCifar100Reader}) {
      if (!reader->recognises(below)) continue;
      return "; " + quoted(below) + " holds " + reader->kind + ": give that";
    }
    std::string hint = levels > 1 ? hint_below(below, levels - 1) : "";
    if (!hint.empty()) return hint;
  }
  return "";
}

Result<FoundData> inspect(const LocatedData& data, const DataOptions& options) {
  if (options.table.ignored_label && data.reader != &kArrayReader) {
    return invalid_input("ignore-label: is for labels in NPZ and NPY files, and " +
                         quoted(data.folder) + " has " + data.reader->kind +
                         ": leave examples without a class out of these");
  }
  auto found = data.reader->inspect(data.folder, options);
  if (!found.ok()) found.error().message += hint_below(data.folder, 2);
  return found;
}

}  // namespace

Result<LocatedData> find_dataset(const std::string& name_or_path, const DataOptions& options) {
  LocatedData data;
  MANTISSA_ASSIGN(data.folder, find_path(name_or_path));
  MANTISSA_ASSIGN(data.reader, find_reader(data.folder));
  MANTISSA_ASSIGN(data.found, inspect(data, options));
  const NamedData* named = find_named(name_or_path);
  Target& target = data.found.target;
  if (named != nullptr && !target.named && named->class_names.size() == target.names.size()) {
    target.names.assign(named->class_names.begin(), named->class_names.end());
    target.named = true;
  }
  return data;
}

}  // namespace mantissa
