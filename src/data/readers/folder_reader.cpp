// Folders of pictures: one folder per class, inside folders of splits or without them.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "data/readers/folder_layout.h"
#include "data/readers/listed_pictures.h"
#include "formats/pictures/image.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTestPart = 10;  // 1 picture in this many, if there is no test folder

// A folder that cannot be listed is left to the reader, which says why.
bool is_picture_folder(const fs::path& folder) {
  const auto entries = list_folder(folder);
  return !entries.ok() || !entries->pictures.empty() || !all_folders(*entries).empty();
}

// Moves a part of each class to the test split: the pictures whose names ("CLASS/FILE") have the
// smallest SHA-256. So it depends on names alone, and a new picture moves hardly any other.
ClassFolders split_off(ClassFolders& train) {
  ClassFolders test;
  test.root = train.root;
  for (ClassFiles& one : train.classes) {
    const auto all = static_cast<int64_t>(one.files.size());
    const int64_t count = all < 2 ? 0 : std::max<int64_t>(1, all / kTestPart);
    std::vector<std::pair<std::string, std::string>> keyed;
    for (std::string& file : one.files) {
      std::string key = sha256_hex(one.name + "/" + file);
      keyed.emplace_back(std::move(key), std::move(file));
    }
    std::sort(keyed.begin(), keyed.end());
    ClassFiles kept{one.name, {}};
    one.files.clear();
    for (int64_t i = 0; i < all; ++i) {
      (i < count ? kept : one).files.push_back(std::move(keyed[i].second));
    }
    for (std::vector<std::string>* files : {&kept.files, &one.files}) {
      std::sort(files->begin(), files->end());
    }
    test.classes.push_back(std::move(kept));
  }
  return test;
}

// The classes of a split as one list, numbered as in `names`, which are sorted.
Result<FoundSplit> make_split(ClassFolders folders, const std::vector<std::string>& names) {
  FoundSplit split;
  for (ClassFiles& one : folders.classes) {
    const auto place = std::lower_bound(names.begin(), names.end(), one.name);
    if (place == names.end() || *place != one.name) {
      return invalid_input(quoted(folders.root / one.name) +
                           ": there is no such class among the training pictures");
    }
    split.labels.insert(split.labels.end(), one.files.size(),
                        static_cast<Label>(place - names.begin()));
    for (const std::string& file : std::exchange(one.files, {})) {
      split.files.push_back(one.name + "/" + file);
    }
  }
  split.folder = std::move(folders.root);
  split.count = static_cast<int64_t>(split.files.size());
  return split;
}

Result<FoundData> inspect_picture_folder(const fs::path& folder, const DataOptions& options) {
  FoundData found;
  MANTISSA_ASSIGN(FolderLayout layout, find_layout(folder));
  found.notes = std::move(layout.notes);
  for (const ClassFiles& one : layout.train.classes) found.target.names.push_back(one.name);
  found.target.named = true;
  if (layout.test.root.empty()) {
    layout.test = split_off(layout.train);
    found.notes.push_back("there is no test folder: one picture in " + std::to_string(kTestPart) +
                          " of each class is kept for testing");
  }
  const std::vector<std::string>& names = found.target.names;
  MANTISSA_ASSIGN(found.train, make_split(std::move(layout.train), names));
  MANTISSA_ASSIGN(found.validation, make_split(std::move(layout.validation), names));
  MANTISSA_ASSIGN(found.test, make_split(std::move(layout.test), names));
  for (const SplitRow& row : kSplitRows) {
    MANTISSA_RETURN_IF_ERROR(inspect_headers(found.*row.found, options.threads, found));
  }
  return found;
}

}  // namespace

const DataReader kFolderReader = {"folders of pictures",
                                  "a folder for each class with .png, .jpg or .jpeg files, in "
                                  "train/, val/ and test/ or without these",
                                  is_picture_folder, inspect_picture_folder, read_listed};

}  // namespace mantissa
