#include "data/datasets/class_folders.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "data/datasets/dataset.h"
#include "data/datasets/readers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// Whether at least two folders in this one hold pictures themselves.
bool has_class_folders(const fs::path& folder) {
  const auto entries = list_folder(folder);
  if (!entries.ok()) return false;
  int classes = 0;
  for (const std::string& name : all_folders(*entries)) {
    const auto below = list_folder(folder / name);
    if (below.ok() && !below->pictures.empty() && ++classes == 2) return true;
  }
  return false;
}

Error no_classes(const ClassFolders& folders) {
  const std::string expected = "one folder per class is expected, with .png, .jpg or .jpeg files";
  if (folders.unlabelled == 0) {
    return invalid_input(quoted(folders.root) + ": no pictures in its folders; " + expected);
  }
  std::string text = quoted(folders.root) + ": " + std::to_string(folders.unlabelled) +
                     " pictures lie in no class folder; " + expected;
  const fs::path above = whole_path(folders.root).parent_path();
  if (!split_of(folders.root.filename().string()) && has_class_folders(above)) {
    const bool is_split = split_of(above.filename().string()).has_value();
    text += ", such as in " + quoted(is_split ? above.parent_path() : above);
  }
  return invalid_input(text);
}

// The folder below a class's own, relative to it, that has folders of training and of other
// pictures: a data set, not a class.
std::optional<fs::path> splits_below(const ClassFiles& one) {
  std::set<std::string> with_train, with_others;
  std::string last;
  for (const std::string& file : one.files) {
    std::string folder = file.substr(0, file.rfind('/') + 1);
    if (folder == last) continue;
    for (size_t start = 0, end; (end = folder.find('/', start)) + 1 < folder.size();
         start = end + 1) {
      const auto split = split_of(folder.substr(start, end - start));
      if (split)
        (split == Split::kTrain ? with_train : with_others).insert(folder.substr(0, start));
    }
    last = std::move(folder);
  }
  for (const std::string& folder : with_train) {
    if (with_others.contains(folder)) return folder;
  }
  return std::nullopt;
}

// If the only class has no pictures itself: the folder below it that has several folders.
std::optional<fs::path> folders_below(const ClassFiles& one) {
  std::string prefix;
  while (true) {
    std::set<std::string> folders;
    for (const std::string& file : one.files) {
      const size_t end = file.find('/', prefix.size());
      if (end == std::string::npos) return std::nullopt;
      folders.insert(file.substr(0, end + 1));
    }
    if (folders.size() > 1) return prefix;
    prefix = *folders.begin();
  }
}

bool lies_deeper(const std::string& file) { return file.find('/') != std::string::npos; }

}  // namespace

std::optional<Split> split_of(const std::string& name) {
  constexpr std::pair<std::string_view, Split> kNames[] = {{"train", Split::kTrain},
                                                           {"training", Split::kTrain},
                                                           {"val", Split::kValidation},
                                                           {"valid", Split::kValidation},
                                                           {"validation", Split::kValidation},
                                                           {"dev", Split::kValidation},
                                                           {"eval", Split::kValidation},
                                                           {"evaluation", Split::kValidation},
                                                           {"test", Split::kTest},
                                                           {"testing", Split::kTest},
                                                           {"holdout", Split::kTest},
                                                           {"heldout", Split::kTest}};
  std::string word;
  for (const char c : name) {
    if (std::string_view(" _-.").find(c) != std::string_view::npos) continue;
    word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const auto& [known, split] : kNames) {
    for (const char* what : {"", "set", "data", "images", "pictures"}) {
      if (word == std::string(known) + what) return split;
    }
  }
  return std::nullopt;
}

fs::path whole_path(const fs::path& folder) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(folder, ignored).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

std::vector<std::string> all_folders(const FolderEntries& entries) {
  std::vector<std::string> names = entries.folders;
  names.insert(names.end(), entries.linked_folders.begin(), entries.linked_folders.end());
  std::sort(names.begin(), names.end());
  return names;
}

Result<ClassFolders> find_class_folders(const fs::path& root) {
  MANTISSA_ASSIGN(FolderEntries entries, list_folder(root));
  ClassFolders found;
  found.root = root;
  found.unlabelled = static_cast<int64_t>(entries.pictures.size());
  found.others = std::move(entries.others);
  for (const std::string& name : entries.pictures) {
    found.others.add(NotRead::kUnlabelled, root / name);
  }
  for (const std::string& name : all_folders(entries)) {
    MANTISSA_ASSIGN(PictureFiles pictures, find_pictures(root / name));
    found.others.add(pictures.others);
    if (pictures.files.empty()) {
      found.others.add(NotRead::kEmptyFolder, root / name);
    } else {
      found.classes.push_back({name, std::move(pictures.files)});
    }
  }
  return found;
}

Status check_classes(const ClassFolders& folders, std::vector<std::string>& notes) {
  const std::vector<ClassFiles>& classes = folders.classes;
  if (classes.empty()) return no_classes(folders);
  if (classes.size() > kMaxClasses) {
    return invalid_input(quoted(folders.root) + ": " + std::to_string(classes.size()) +
                         " classes (folders with pictures); at most " +
                         std::to_string(kMaxClasses) + " are supported");
  }
  bool all_deeper = true;
  for (const ClassFiles& one : classes) {
    const fs::path path = folders.root / one.name;
    auto below = splits_below(one);
    if (!below && classes.size() == 1) below = folders_below(one);
    if (below) {
      return invalid_input(quoted(path) + " is no class: its pictures lie in folders of their own" +
                           "; give " + quoted(whole_path(path / *below)) + " instead of " +
                           quoted(folders.root));
    }
    all_deeper = all_deeper && std::all_of(one.files.begin(), one.files.end(), lies_deeper);
  }
  if (classes.size() == 1) {
    notes.push_back("there is one class only, '" + classes[0].name +
                    "': nothing can be learnt from it");
  } else if (all_deeper) {
    notes.push_back("no picture lies in a class folder itself: all that is below " +
                    quoted(folders.root / classes[0].name) + " is taken for one class");
  }
  return {};
}

}  // namespace mantissa
