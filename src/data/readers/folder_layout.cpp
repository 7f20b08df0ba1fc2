#include "data/readers/folder_layout.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/datasets/readers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSplits = {Split::kTrain, Split::kValidation, Split::kTest};
constexpr std::array<const char*, kSplits.size()> kWords = {"training", "validation", "test"};

// The folders with names of splits, by Split, and the folders beside them.
struct NamedFolders {
  std::array<std::vector<ClassFolders>, kSplits.size()> of;
  PassedOver others;

  std::vector<ClassFolders>& operator[](Split split) { return of[static_cast<size_t>(split)]; }
};

Result<NamedFolders> find_named(const fs::path& folder) {
  MANTISSA_ASSIGN(FolderEntries entries, list_folder(folder));
  NamedFolders named;
  named.others = std::move(entries.others);
  for (const std::string& name : entries.pictures) {
    named.others.add(NotRead::kUnlabelled, folder / name);
  }
  for (const std::string& name : all_folders(entries)) {
    const auto split = split_of(name);
    if (!split) {
      named.others.add(NotRead::kOtherFolder, folder / name);
      continue;
    }
    MANTISSA_ASSIGN(ClassFolders found, find_class_folders(folder / name));
    named[*split].push_back(std::move(found));
  }
  return named;
}

// Takes, of the folders that are named as one split, the one that has classes, if any.
Result<ClassFolders> take_split(NamedFolders& named, Split split) {
  ClassFolders taken;
  for (ClassFolders& candidate : named[split]) {
    named.others.add(candidate.others);
    if (!candidate.has_pictures()) named.others.add(NotRead::kEmptyFolder, candidate.root);
    if (candidate.classes.empty()) continue;
    if (!taken.root.empty()) {
      return invalid_input(quoted(taken.root) + " and " + quoted(candidate.root) +
                           " are both named as " + kWords[static_cast<size_t>(split)] +
                           " pictures: give one of them another name");
    }
    taken = std::move(candidate);
  }
  return taken;
}

Result<FolderLayout> layout_of_splits(NamedFolders named) {
  FolderLayout layout;
  MANTISSA_ASSIGN(layout.train, take_split(named, Split::kTrain));
  MANTISSA_ASSIGN(layout.validation, take_split(named, Split::kValidation));
  MANTISSA_ASSIGN(layout.test, take_split(named, Split::kTest));
  MANTISSA_RETURN_IF_ERROR(check_classes(layout.train, layout.notes));
  if (layout.test.root.empty() && !layout.validation.root.empty()) {
    layout.test = std::exchange(layout.validation, {});
    layout.notes.push_back("there is no folder of labelled test pictures: " +
                           quoted(layout.test.root) + " is taken for it, not for validation");
  } else if (!layout.validation.root.empty()) {
    layout.notes.push_back(quoted(layout.validation.root) + " holds the validation pictures");
  }
  for (std::string& note : named.others.notes()) layout.notes.push_back(std::move(note));
  return layout;
}

// Notes if this folder is itself one of several splits.
void note_splits_beside(const fs::path& folder, std::vector<std::string>& notes) {
  const fs::path whole = whole_path(folder), above = whole.parent_path();
  if (!split_of(whole.filename().string())) return;
  const auto entries = list_folder(above);
  if (!entries.ok()) return;
  for (const std::string& name : all_folders(*entries)) {
    if (name == whole.filename() || !split_of(name)) continue;
    notes.push_back(quoted(above / name) + " lies beside this folder: to use both, give " +
                    quoted(above));
    return;
  }
}

// All folders are classes.
Result<FolderLayout> layout_of_classes(const fs::path& folder, NamedFolders named) {
  for (const Split split : {Split::kTest, Split::kValidation}) {
    for (const ClassFolders& one : named[split]) {
      if (!one.has_pictures()) continue;
      return invalid_input(quoted(one.root) + " is named as " + kWords[static_cast<size_t>(split)] +
                           " pictures, but there are no training pictures in class folders of " +
                           quoted(folder / "train") + "; if it is a class, give it another name");
    }
  }
  FolderLayout layout;
  MANTISSA_ASSIGN(layout.train, find_class_folders(folder));
  // Trains may be a class beside others. Without others, these are pictures without labels.
  for (const ClassFolders& one : named[Split::kTrain]) {
    if (!one.has_pictures()) continue;
    if (layout.train.classes.size() < named[Split::kTrain].size() + 2) {
      return check_classes(one, layout.notes).error();
    }
    layout.notes.push_back(quoted(one.root) +
                           " is taken for a class: it has pictures, but no class folders");
  }
  MANTISSA_RETURN_IF_ERROR(check_classes(layout.train, layout.notes));
  for (std::string& note : layout.train.others.notes()) layout.notes.push_back(std::move(note));
  note_splits_beside(folder, layout.notes);
  return layout;
}

}  // namespace

Result<FolderLayout> find_layout(const fs::path& folder) {
  MANTISSA_ASSIGN(NamedFolders named, find_named(folder));
  const std::vector<ClassFolders>& train = named[Split::kTrain];
  const bool has_splits = std::any_of(train.begin(), train.end(),
                                      [](const ClassFolders& one) { return !one.classes.empty(); });
  return has_splits ? layout_of_splits(std::move(named))
                    : layout_of_classes(folder, std::move(named));
}

}  // namespace mantissa
