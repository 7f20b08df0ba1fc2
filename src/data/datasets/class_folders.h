// A folder that holds one for each class.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/pictures/picture_files.h"

namespace mantissa {

enum class Split { kTrain, kValidation, kTest };

// The split that a folder's name says, such as "Train", "training_set", "test-images", "val".
std::optional<Split> split_of(const std::string& name);

// The pictures of one class: paths below its folder.
struct ClassFiles {
  std::string name;
  std::vector<std::string> files;
};

struct ClassFolders {
  std::filesystem::path root;       // "" if there is none
  std::vector<ClassFiles> classes;  // by name; only folders with pictures
  int64_t unlabelled = 0;           // pictures beside the class folders
  PassedOver others;

  bool has_pictures() const { return !classes.empty() || unlabelled > 0; }
};

// The classes in a folder. Its own links to folders are followed, those in classes are not.
Result<ClassFolders> find_class_folders(const std::filesystem::path& root);

// An error if there are no classes or too many, or if folders that hold a data set or classes are
// taken for classes: the error names the right path. Other oddities become notes.
Status check_classes(const ClassFolders& folders, std::vector<std::string>& notes);

// An absolute path without a slash at its end.
std::filesystem::path whole_path(const std::filesystem::path& folder);

// The names of folders and of links to folders.
std::vector<std::string> all_folders(const FolderEntries& entries);

}  // namespace mantissa
