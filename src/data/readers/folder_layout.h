// Which folders of pictures are classes, and of which split.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/class_folders.h"

namespace mantissa {

struct FolderLayout {
  ClassFolders train, validation, test;  // the last two may be without a root: there is none
  std::vector<std::string> notes;        // a line each of what the user should know
};

// Folders named as splits (split_of) hold folders of classes; where no such folder has training
// pictures, all folders are classes. Without a test folder the validation folder is taken for it.
// Errors: a folder cannot be listed; two folders for one split; a test or validation folder without
// training pictures; those of check_classes.
Result<FolderLayout> find_layout(const std::filesystem::path& folder);

}  // namespace mantissa
